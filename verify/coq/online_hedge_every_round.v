(** online.hedge after any number of rounds: log weights lose the losses, added up over the rounds, times the rate.

    A round is that of the source generated for the claim "token-table", of each realisation. *)

From mathcomp Require Import all_ssreflect ssralg matrix.
From ContextProof Require Import LogWeights online_hedge_token_table.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import GRing.Theory.
Local Open Scope ring_scope.

Section Every_round.
Variables (ring : comRingType) (n K d : nat) (U : 'M[ring]_(d, n)) (e : ring).
Variables (P : nat -> 'M[ring]_(K, n)) (y : nat -> 'M[ring]_(K, 1)) (S : nat -> 'M[ring]_(d, 1)).
Hypothesis orthonormal : U^T *m U = 1%:M.

Definition next (realisation : nat) t (l : 'M[ring]_(n, 1)) : 'M[ring]_(d, 1) :=
  match realisation with
  | 0 => one_block.next ring K d n (P t) U e%:M l (y t)
  | 1 => two_layer.next ring K d n (P t) U e%:M l (y t)
  | _ => replica.next ring K d n (P t) U e%:M l (y t)
  end.

Variable realisation : nat.
Hypothesis rounds : forall t, S t.+1 = next realisation t (U^T *m S t).

(** After T rounds log weights have e times the sum of the losses that each expert has suffered. *)
Theorem log_weights T : U^T *m S T = U^T *m S 0%N + e *: \sum_(t < T) (P t)^T *m y t.
Proof.
apply: losses_added => [t|t]; last by [].
rewrite rounds; case: realisation => [|[|more]].
- exact (one_block.log_weights_grow ring K d n (P t) U e%:M (U^T *m S t) (y t) (tr_scalar_mx _ _) orthonormal).
- exact (two_layer.log_weights_grow ring K d n (P t) U e%:M (U^T *m S t) (y t) (tr_scalar_mx _ _) orthonormal).
- exact (replica.log_weights_grow ring K d n (P t) U e%:M (U^T *m S t) (y t) (tr_scalar_mx _ _) orthonormal).
Qed.

End Every_round.

Print Assumptions log_weights.
