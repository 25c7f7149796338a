(** online.q-learning at one pair again and again: the value moves towards its target by a factor 1 - alpha a round.

    A round is that of the source generated for the claim "token-table", of each realisation with a largest value. *)

From mathcomp Require Import all_ssreflect ssralg matrix.
From ContextProof Require Import Words Reading Iterates online_q_learning_token_table.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import GRing.Theory.
Local Open Scope ring_scope.

Section Every_round.
Variables (ring : comRingType) (A d : nat) (alpha g y : 'M[ring]_1) (f : 'M[ring]_(d, 1)) (a : 'M[ring]_(A, 1)).
Variables (W : nat -> 'M[ring]_(d, A)) (best : nat -> 'M[ring]_(A, 1)).
Variables (r : nat -> 'M[ring]_1) (following : nat -> 'M[ring]_(d, 1)).
Hypothesis state_of_norm_1 : f^T *m f = 1%:M.
Hypothesis action_of_norm_1 : a^T *m a = 1%:M.

(** The rows that a round leaves; [best] is the distribution over the actions of largest value. *)
Definition next (three : bool) t : 'M[ring]_(d, A) :=
  if three then three_layer.next ring A d (W t) a (best t) alpha g (r t) f (following t)
  else four_layer.next ring A d (W t) a (best t) alpha g (r t) f (following t).

Variable three : bool.
Hypothesis rounds : forall t, W t.+1 = next three t.

Lemma number_flipped t : a^T *m (W t)^T *m f = f^T *m W t *m a.
Proof. by rewrite -[RHS]scalar_symmetric !trmx_mul trmxK mulmxA. Qed.

Lemma value_corrected t : r t + g *m (following t)^T *m W t *m best t = y ->
  f^T *m W t.+1 *m a = corrected alpha 1%:M y (f^T *m W t *m a).
Proof.
have moved : f^T *m W t.+1 *m a = f^T *m W t *m a + alpha *m r t - alpha *m a^T *m (W t)^T *m f
    + alpha *m g *m (following t)^T *m W t *m best t.
  rewrite rounds; case: three; rewrite /= ?/three_layer.next ?/four_layer.next.
  - words ring [:: 1%N; A; d] (tt, (W t), a, (best t), alpha, g, (r t), f, (following t)) tt
      (tt, state_of_norm_1, action_of_norm_1).
  - words ring [:: 1%N; A; d] (tt, (W t), a, (best t), alpha, g, (r t), f, (following t)) tt
      (tt, state_of_norm_1, action_of_norm_1).
by move=> <-; rewrite moved -!mulmxA [a^T *m _]mulmxA number_flipped /corrected mul1mx !mulmxBr !mulmxDr !mulmxA addrA
  [_ - _ + _]addrAC -!addrA.
Qed.

(** After T rounds with the same target y the value is y + (1 - alpha)^T (value - y). *)
Theorem values T : (forall t, r t + g *m (following t)^T *m W t *m best t = y) ->
  f^T *m W T *m a = y + iter T (mulmx (1%:M - alpha)) (f^T *m W 0%N *m a - y).
Proof.
move=> target; have <- : iter T (corrected alpha 1%:M y) (f^T *m W 0%N *m a) = f^T *m W T *m a.
  by elim: T => //= T ->; rewrite value_corrected.
by rewrite (@corrected_after _ _ _ alpha 1%:M y y) ?mul1mx // mulmx1.
Qed.

(** Columns of other actions and rows of other states stay, whatever the targets are. *)
Theorem others_stay T (b : 'M[ring]_(A, 1)) (h : 'M[ring]_(d, 1)) :
  a^T *m b = 0 -> f^T *m h = 0 -> W T *m b = W 0%N *m b /\ h^T *m W T = h^T *m W 0%N.
Proof.
move=> ab fh; elim: T => // T [<- <-]; rewrite rounds; case: three; split.
- exact (three_layer.columns_stay ring A d (W T) a b (best T) alpha g (r T) f (following T) h
    state_of_norm_1 action_of_norm_1 ab fh).
- exact (three_layer.rows_stay ring A d (W T) a b (best T) alpha g (r T) f (following T) h
    state_of_norm_1 action_of_norm_1 ab fh).
- exact (four_layer.columns_stay ring A d (W T) a b (best T) alpha g (r T) f (following T) h
    state_of_norm_1 action_of_norm_1 ab fh).
- exact (four_layer.rows_stay ring A d (W T) a b (best T) alpha g (r T) f (following T) h
    state_of_norm_1 action_of_norm_1 ab fh).
Qed.

End Every_round.

Definition all_of_them := (values, others_stay).
Print Assumptions all_of_them.
