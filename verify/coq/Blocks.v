(** Blocks in their places: inclusions of the parts of a column. *)

From mathcomp Require Import all_ssreflect ssralg matrix.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import GRing.Theory.
Local Open Scope ring_scope.

Section Blocks.
Variable R : comRingType.

(** What part number [i] of a column contributes to the whole, parts of these sizes standing one above the other: the
    whole is the sum of [part sizes i *m B] over its parts B. *)
Fixpoint part (sizes : seq nat) : forall i, 'M[R]_(sumn sizes, nth 0%N sizes i) :=
  match sizes return forall i, 'M[R]_(sumn sizes, nth 0%N sizes i) with
  | [::] => fun i => 0
  | a :: rest => fun i =>
    match i return 'M[R]_(a + sumn rest, nth 0%N (a :: rest) i) with
    | 0 => col_mx 1%:M 0
    | i'.+1 => col_mx 0 (part rest i')
    end
  end.

Lemma part_itself sizes i : (i < size sizes)%N -> (part sizes i)^T *m part sizes i = 1%:M.
Proof.
elim: sizes i => // a rest IH [_|i /IH eq_i] /=; rewrite tr_col_mx mul_row_col.
  by rewrite trmx1 mulmx1 mulmx0 addr0.
by rewrite mulmx0 add0r.
Qed.

Lemma part_other sizes i j : i != j -> (part sizes i)^T *m part sizes j = 0.
Proof.
elim: sizes i j => [|a rest IH] [|i] [|j] //= i_j; rewrite ?mulmx0 // tr_col_mx mul_row_col.
- by rewrite mulmx0 trmx0 mul0mx addr0.
- by rewrite trmx0 mul0mx mulmx0 addr0.
- by rewrite mulmx0 add0r IH.
Qed.

(** The parts make up the whole. *)
Lemma parts sizes : \sum_(i < size sizes) part sizes i *m (part sizes i)^T = 1%:M.
Proof.
elim: sizes => [|a rest IH]; first by apply/matrixP => [[]].
rewrite big_ord_recl /= tr_col_mx mul_col_row trmx1 trmx0 !(mulmx1, mulmx0, mul0mx).
under eq_bigr => i _ do rewrite tr_col_mx mul_col_row trmx0 !(mulmx0, mul0mx).
rewrite [X in _ + X](_ : _ = block_mx 0 0 0 1%:M); first by rewrite add_block_mx !addr0 !add0r -scalar_mx_block.
rewrite -IH; elim/big_rec2: _ => [|i A B _ ->]; first by rewrite block_mx0.
by rewrite add_block_mx !addr0.
Qed.

End Blocks.
