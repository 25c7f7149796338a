(** td.doubling at every depth: the layers as built, one for each binary digit, give v_l for every l <= L.

    The layers are those of the sources generated for the claims "layers-44" and "layers-90", which have every form:
    by the bank that is read, the digit, and whether it is the last. That the program of depth l is made of these
    forms, as [program] says, is the claim "digits". *)

From mathcomp Require Import all_ssreflect ssralg matrix.
From ContextProof Require Import Iterates Doubling td_doubling_layers_44 td_doubling_layers_90.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import GRing.Theory.
Local Open Scope ring_scope.

Module short := td_doubling_layers_44.
Module long := td_doubling_layers_90.

Section Every_depth.
Variables (ring : comRingType) (h k n q : nat).
Variables (ones : 'M[ring]_(1, k)) (B W : 'M[ring]_(n, k)) (P : 'M[ring]_(h, k)) (X : 'M[ring]_(n, q)).
Variables (H : 'M[ring]_k) (g0 : 'M[ring]_(k, 1)).
Hypothesis biorthogonal : W^T *m B = 1%:M.
Hypothesis places : P^T *m P = 1%:M.

Definition tokens := 'M[ring]_(sumn (short.digit_1.fields h n), sumn (short.digit_1.kinds k q)).

Definition layer (bank digit : bool) : tokens -> tokens :=
  match bank, digit with
  | false, false => short.digit_1.attend ring h k n q
  | true, false => short.digit_2.attend ring h k n q
  | false, true => short.digit_3.attend ring h k n q
  | true, true => short.digit_4.attend ring h k n q
  end.

Definition last (bank : bool) : tokens -> tokens :=
  if bank then short.digit_6.attend ring h k n q else long.digit_7.attend ring h k n q.

Definition read (bank : bool) : tokens -> tokens :=
  if bank then long.read.attend ring h k n q else short.read.attend ring h k n q.

Fixpoint digits (bank : bool) (ds : seq bool) (U : tokens) : tokens :=
  if ds is d :: ds' then digits (~~ bank) ds' (layer bank d U) else read (~~ bank) (last bank U).

Definition program (l : nat) (U : tokens) : tokens :=
  digits false (leading l) (short.extraction.attend ring h k n q U).

(** What a bank holds: P E, S' and T'; at the end T' alone. *)
Definition bank_of (bank : bool) (x : 'M[ring]_k * 'M[ring]_(k, 1) * 'M[ring]_(k, 1)) : tokens :=
  if bank then short.digit_2.tokens_at ring h k n q ones B P X x.1.1 x.1.2 x.2
  else short.digit_1.tokens_at ring h k n q ones B P X x.1.1 x.1.2 x.2.

Definition taken (bank : bool) (T : 'M[ring]_(k, 1)) : tokens :=
  if bank then long.read.tokens_at ring h k n q ones B P X T else short.read.tokens_at ring h k n q ones B P X T.

Lemma layer_doubles bank d x : layer bank d (bank_of bank x) = bank_of (~~ bank) (double d x).
Proof.
case: bank; case: d.
- exact (short.digit_4.step ring h k n q ones B P X places x.1.1 x.1.2 x.2).
- exact (short.digit_2.step ring h k n q ones B P X places x.1.1 x.1.2 x.2).
- exact (short.digit_3.step ring h k n q ones B P X places x.1.1 x.1.2 x.2).
- exact (short.digit_1.step ring h k n q ones B P X places x.1.1 x.1.2 x.2).
Qed.

Lemma last_takes bank x : last bank (bank_of bank x) = taken (~~ bank) (double true x).2.
Proof.
case: bank.
- exact (short.digit_6.step ring h k n q ones B P X places x.1.1 x.1.2 x.2).
- exact (long.digit_7.step ring h k n q ones B P X places x.1.1 x.1.2 x.2).
Qed.

Lemma digits_double bank ds x :
  exists bank', digits bank ds (bank_of bank x) = read bank' (taken bank' (doubled (rcons ds true) x).2).
Proof.
elim: ds bank x => [|d ds IH] bank x /=; first by exists (~~ bank); rewrite last_takes.
by rewrite layer_doubles; exact: IH.
Qed.

Definition start : tokens := short.extraction.tokens_at ring h k n q ones B W P X H g0.

Lemma start_fills : short.extraction.attend ring h k n q start = bank_of false (H, g0, 0).
Proof.
rewrite [LHS](short.extraction.step ring h k n q ones B W P X biorthogonal places H g0).
by rewrite /bank_of /short.digit_1.tokens_at trmx0 mulmx0 mul0mx addr0.
Qed.

Definition in_r := short.read.in_r ring h n.
Definition at_query := short.read.at_query ring k q.

Variables (A : 'M[ring]_n) (r : 'M[ring]_(n, 1)) (L : nat).
Hypothesis krylov : forall j, (j < L)%N -> iter j (mulmx A) r = B *m iter j (mulmx H) g0.

(** Depth l by its digits: the last coordinate of query number i is minus the inner product of v_l and that query. *)
Theorem queries l : (0 < l <= L)%N -> in_r^T *m program l start *m at_query = - ((iterate A r l)^T *m X).
Proof.
case/andP=> l0 l_L; rewrite /program start_fills; case: (digits_double false (leading l) (H, g0, 0)) => bank ->.
rewrite doubled_digits leadingK // -(read_sum krylov l_L).
case: bank; [exact: long.read.query_values | exact: short.read.query_values].
Qed.

End Every_depth.

Print Assumptions queries.
