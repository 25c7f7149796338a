(** Log weights that add up: after T rounds the log weight of expert i has e for each of its mistakes. *)

From mathcomp Require Import all_ssreflect ssralg matrix.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import GRing.Theory.
Local Open Scope ring_scope.

Section Log_weights.
Variables (ring : comRingType) (n K d : nat).

(** States whose log weights l = U'S grow by what each round tells. *)
Variables (U : 'M[ring]_(d, n)) (gain : nat -> 'M[ring]_(n, 1)) (state : nat -> 'M[ring]_(d, 1)).
Hypothesis round : forall t, U^T *m state t.+1 = U^T *m state t + gain t.

Theorem additive T : U^T *m state T = U^T *m state 0%N + \sum_(t < T) gain t.
Proof. by elim: T => [|T IH]; rewrite ?big_ord0 ?addr0 // round IH big_ord_recr addrA. Qed.

(** With losses: label k costs y_t(k), and an expert suffers the loss of what it says, e times. *)
Lemma losses_added (e : ring) (P : nat -> 'M[ring]_(K, n)) (y : nat -> 'M[ring]_(K, 1)) T :
  (forall t, gain t = (P t)^T *m e%:M *m y t) ->
  U^T *m state T = U^T *m state 0%N + e *: \sum_(t < T) (P t)^T *m y t.
Proof.
move=> losses; rewrite additive scaler_sumr; congr (_ + _); apply: eq_bigr => t _.
by rewrite losses mul_mx_scalar scalemxAl.
Qed.

(** Experts say labels p_t(i), the label is y_t, and the penalty is e off the diagonal. *)
Variables (e : ring) (p : nat -> 'I_n -> 'I_K) (y : nat -> 'I_K).

Definition said t : 'M[ring]_(K, n) := \matrix_(k, i) (k == p t i)%:R.
Definition told t : 'M[ring]_(K, 1) := \matrix_(k, _) (k == y t)%:R.
Definition penalty : 'M[ring]_K := \matrix_(k, k') (if k == k' then 0 else e).
Definition mistakes T i := (\sum_(t < T) (p t i != y t))%N.

Lemma erred t i : ((said t)^T *m penalty *m told t) i ord0 = e *+ (p t i != y t).
Proof.
rewrite mxE (bigD1 (y t)) //= !mxE eqxx mulr1 (bigD1 (p t i)) //= !mxE eqxx mul1r.
rewrite big1 => [|k /negbTE k_p]; last by rewrite !mxE k_p mul0r.
rewrite big1 => [|k /negbTE k_y]; last by rewrite !mxE k_y mulr0.
by rewrite !addr0; case: eqP.
Qed.

Hypothesis erring : forall t, gain t = (said t)^T *m penalty *m told t.

(** log w_i after T rounds = log w_i before + e times the mistakes of i. *)
Theorem mistakes_counted T i : (U^T *m state T) i ord0 = (U^T *m state 0%N) i ord0 + e *+ mistakes T i.
Proof.
rewrite additive mxE summxE; congr (_ + _); rewrite /mistakes.
elim: T => [|T IH]; first by rewrite !big_ord0.
by rewrite !big_ord_recr mulrnDr /= IH erring erred.
Qed.

End Log_weights.
