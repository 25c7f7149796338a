(** online.weighted-majority after any number of rounds: each expert's log weight has e for each of its mistakes.

    A round is that of the source generated for the claim "token-table", of each realisation that has the penalty
    e (J - I); for the one by softmax alone the source has what a round adds in other letters, and [additive] applies. *)

From mathcomp Require Import all_ssreflect ssralg matrix.
From ContextProof Require Import LogWeights online_weighted_majority_token_table.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import GRing.Theory.
Local Open Scope ring_scope.

Section Every_round.
Variables (ring : comRingType) (n K d : nat) (U : 'M[ring]_(d, n)) (e : ring).
Variables (p : nat -> 'I_n -> 'I_K) (y : nat -> 'I_K) (S : nat -> 'M[ring]_(d, 1)).
Hypothesis orthonormal : U^T *m U = 1%:M.

(** The state that a round leaves of log weights l, what the experts say and what the label is. *)
Definition next (realisation : nat) t (l : 'M[ring]_(n, 1)) : 'M[ring]_(d, 1) :=
  match realisation with
  | 0 => one_block.next ring K d n (said ring p t) U (penalty K e) l (told ring y t)
  | 1 => two_layer.next ring K d n (said ring p t) U (penalty K e) l (told ring y t)
  | _ => replica.next ring K d n (said ring p t) U (penalty K e) l (told ring y t)
  end.

Lemma penalty_symmetric : (penalty K e)^T = penalty K e.
Proof. by apply/matrixP => i j; rewrite !mxE eq_sym. Qed.

Lemma next_grows realisation t l :
  U^T *m next realisation t l = l + (said ring p t)^T *m penalty K e *m told ring y t.
Proof.
case: realisation => [|[|realisation]].
- exact (one_block.log_weights_grow ring K d n (said ring p t) U _ l (told ring y t) penalty_symmetric orthonormal).
- exact (two_layer.log_weights_grow ring K d n (said ring p t) U _ l (told ring y t) penalty_symmetric orthonormal).
- exact (replica.log_weights_grow ring K d n (said ring p t) U _ l (told ring y t) penalty_symmetric orthonormal).
Qed.

Variable realisation : nat.
Hypothesis rounds : forall t, S t.+1 = next realisation t (U^T *m S t).

(** log w_i after T rounds is log w_i before them plus e times the mistakes of i in them. *)
Theorem log_weights T i : (U^T *m S T) i ord0 = (U^T *m S 0%N) i ord0 + e *+ mistakes p y T i.
Proof. by apply: mistakes_counted => t //; rewrite rounds next_grows. Qed.

(** The context holds U times the log weights, in every round if in the first one. *)
Theorem held T : S 0%N = U *m (U^T *m S 0%N) -> S T = U *m (U^T *m S T).
Proof.
move=> start; case: T => // T; rewrite rounds next_grows.
rewrite mulmxDr [U *m (_ *m _ *m _)]mulmxA [U *m (_ *m penalty _ _)]mulmxA.
by case: realisation => [|[|more]]; reflexivity.
Qed.

End Every_round.

Definition all_of_them := (log_weights, held).
Print Assumptions all_of_them.
