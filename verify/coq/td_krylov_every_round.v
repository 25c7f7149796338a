(** td.krylov after every round: the tokens made by the passes as built span the powers A^j r and the iterates of TD.

    The layers are those of the source generated for the claim "rounds": the first token, and two passes of each of the
    three further rounds. A round hands A b_j to the passes; the tokens done before it hold b_1, .., b_j and their w. *)

From mathcomp Require Import all_ssreflect ssralg matrix.
From ContextProof Require Import Iterates Krylov td_krylov_rounds.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import GRing.Theory.
Local Open Scope ring_scope.

(** ** One round, in each of the forms as built *)
Section One_round.
Variables (ring : comRingType) (m n : nat) (B W : 'M[ring]_(n, m)) (z : 'M[ring]_(n, 1)).

Definition made (round : nat) : 'M[ring]_(n, 1) :=
  match round with
  | 0 => (round_1_pass_2.in_x ring n)^T *m round_1_pass_2.attend ring m n (round_1_pass_1.attend ring m n
      (round_1_pass_1.tokens_at ring m n B W z)) *m round_1_pass_2.at_next ring m
  | 1 => (round_2_pass_2.in_x ring n)^T *m round_2_pass_2.attend ring m n (round_2_pass_1.attend ring m n
      (round_2_pass_1.tokens_at ring m n B W z)) *m round_2_pass_2.at_next ring m
  | _ => (round_3_pass_2.in_x ring n)^T *m round_3_pass_2.attend ring m n (round_3_pass_1.attend ring m n
      (round_3_pass_1.tokens_at ring m n B W z)) *m round_3_pass_2.at_next ring m
  end.

Definition explained (v : 'M[ring]_(n, 1)) := v - B *m W^T *m v.

Lemma made_explained round : made round = explained (explained z).
Proof.
case: round => [|[|round]] /=.
- rewrite round_1_pass_1.step [in LHS](round_1_pass_2.step ring m n B W (explained z)).
  exact: round_1_pass_2.next_token.
- rewrite round_2_pass_1.step [in LHS](round_2_pass_2.step ring m n B W (explained z)).
  exact: round_2_pass_2.next_token.
- rewrite round_3_pass_1.step [in LHS](round_3_pass_2.step ring m n B W (explained z)).
  exact: round_3_pass_2.next_token.
Qed.

Lemma explained_away : exists x : 'M[ring]_(m, 1), explained (explained z) = z - B *m x.
Proof.
exists (W^T *m z + W^T *m explained z).
by rewrite mulmxDr opprD addrA !mulmxA /explained.
Qed.

End One_round.

(** ** All rounds *)
Section Every_round.
Variables (ring : comRingType) (n : nat) (A : 'M[ring]_n) (r : 'M[ring]_(n, 1)) (ones : 'M[ring]_(1, n)).
Variables (b w : nat -> 'M[ring]_(n, 1)) (form : nat -> nat).

Hypothesis first : b 0%N =
  (b_1_r.in_x ring n)^T *m b_1_r.attend ring n (b_1_r.tokens_at ring n ones A r) *m b_1_r.at_here ring n.
Hypothesis rounds : forall j, b j.+1 = made (bank b j.+1) (bank w j.+1) (A *m b j) (form j).

Lemma first_is_r : b 0%N = r.
Proof. by rewrite first; exact: b_1_r.first_token. Qed.

Lemma first_spanned : spanned b 1 r.
Proof. by rewrite -first_is_r; exact: spanned_itself. Qed.

Lemma every_round j : spanned b j.+2 (A *m b j).
Proof.
have [x made_x] := explained_away (bank b j.+1) (bank w j.+1) (A *m b j).
apply: (@round_spanned _ _ _ _ _ (bank b j.+1 *m x)); first exact: bank_spanned.
by rewrite rounds made_explained made_x.
Qed.

(** A^j r in the span of the first j + 1 tokens, for every j. *)
Theorem powers_spanned j : spanned b j.+1 (iter j (mulmx A) r).
Proof. exact: krylov_spanned first_spanned every_round j. Qed.

Theorem iterates_spanned l : spanned b l (iterate A r l).
Proof. exact: iterate_spanned first_spanned every_round l. Qed.

(** Where a round makes nothing new the span of the tokens before it is invariant. *)
Variable k : nat.
Hypothesis some : (0 < k)%N.
Hypothesis nothing_new : b k = 0.

Lemma last_round j : (j < k)%N -> spanned b k (A *m b j).
Proof.
move=> j_k; case: (ltngtP j.+1 k) (j_k) => // [lt|eq] _; first exact: spanned_more (every_round j).
have [x made_x] := explained_away (bank b j.+1) (bank w j.+1) (A *m b j).
rewrite -eq; suff -> : A *m b j = bank b j.+1 *m x by exact: bank_spanned.
by apply/eqP; rewrite -subr_eq0 -made_x -(made_explained _ _ _ (form j)) -rounds eq nothing_new.
Qed.

Theorem powers_invariant j : spanned b k (iter j (mulmx A) r).
Proof. exact (krylov_invariant first_spanned (@last_round) some j). Qed.

Theorem iterates_invariant l : spanned b k (iterate A r l).
Proof. exact (iterate_invariant first_spanned (@last_round) some l). Qed.

(** The hypothesis of the executor, with H = W'A B and g0 = W'r: for all depths where b_{k+1} = 0, and W'B = I. *)
Hypothesis biorthogonal : (bank w k)^T *m bank b k = 1%:M.

Theorem executor_assumes j :
  iter j (mulmx A) r = bank b k *m iter j (mulmx ((bank w k)^T *m A *m bank b k)) ((bank w k)^T *m r).
Proof.
apply: (@krylov_powers _ _ _ _ _ _ _ j.+1 biorthogonal) => // i _; exact/spanned_bank/powers_invariant.
Qed.

End Every_round.

Definition all_of_them := (iterates_spanned, iterates_invariant, executor_assumes).
Print Assumptions all_of_them.
