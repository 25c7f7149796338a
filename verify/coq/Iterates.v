(** Steps repeated: iterates of v+ = r + A v, powers, and layers applied again and again.

    Powers are iterated products, for matrices of any size: A^j r is [iter j (mulmx A) r]. *)

From mathcomp Require Import all_ssreflect ssralg matrix.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import GRing.Theory.
Local Open Scope ring_scope.

(** A layer that takes the tokens of a state to those of the next one does so any number of times. *)
Lemma iterated (State Tokens : Type) (next : State -> State) (attend : Tokens -> Tokens) (tokens : State -> Tokens) :
  (forall x, attend (tokens x) = tokens (next x)) -> forall l x, iter l attend (tokens x) = tokens (iter l next x).
Proof. by move=> step; elim=> // l IH x; rewrite !iterS IH step. Qed.

Section Iterates.
Variables (ring : comRingType) (n : nat) (A : 'M[ring]_n) (r : 'M[ring]_(n, 1)).

Definition iterate l := iter l (fun v => r + A *m v) (0 : 'M[ring]_(n, 1)).

Definition power l : 'M[ring]_n := iter l (mulmx A) 1%:M.

(** The iterates of TD are the partial sums of A^j r. *)
Lemma iterate_sum l : iterate l = \sum_(j < l) iter j (mulmx A) r.
Proof.
elim: l => [|l IH]; first by rewrite big_ord0.
by rewrite big_ord_recl /= -/(iterate l) IH mulmx_sumr.
Qed.

(** v_{l+1} = v_l + A^l r. *)
Lemma iterate_last l : iterate l.+1 = iterate l + iter l (mulmx A) r.
Proof. by rewrite !iterate_sum big_ord_recr. Qed.

Lemma power_mul m (v : 'M[ring]_(n, m)) l : iter l (mulmx A) v = power l *m v.
Proof. by elim: l => [|l IH] /=; rewrite ?mul1mx // IH mulmxA. Qed.

Lemma power_add a b : power (a + b) = power a *m power b.
Proof. by rewrite {1}/power iterD power_mul. Qed.

(** The addition law: v_{a+b} = v_a + A^a v_b. *)
Lemma iterate_add a b : iterate (a + b) = iterate a + power a *m iterate b.
Proof.
elim: a => [|a IH]; first by rewrite add0r mul1mx.
by rewrite addSn /= -/(iterate (a + b)) -/(iterate a) -/(power a) IH mulmxDr addrA mulmxA.
Qed.

End Iterates.

(** ** Fixed points of the TD family: w+ = w + C (b - M w), where C has the step in it *)
Section Fixed_points.
Variables (ring : comRingType) (d m : nat) (C : 'M[ring]_(d, m)) (M : 'M[ring]_(m, d)) (b : 'M[ring]_(m, 1)).

Definition corrected (w : 'M[ring]_(d, 1)) := w + C *m (b - M *m w).

(** Where M w = b nothing moves, whatever C is. *)
Lemma still w : M *m w = b -> corrected w = w.
Proof. by move=> Mw; rewrite /corrected Mw subrr mulmx0 addr0. Qed.

(** Nothing else is still where C can be undone. *)
Lemma still_only (D : 'M[ring]_(m, d)) w : D *m C = 1%:M -> corrected w = w -> M *m w = b.
Proof.
move=> DC /(congr1 (fun x => D *m (x - w))); rewrite /corrected addrAC subrr add0r mulmxA DC mul1mx mulmx0.
by move/eqP; rewrite subr_eq0 => /eqP.
Qed.

(** After l steps the error is (I - C M)^l times the first one. *)
Lemma error_after w l w0 : M *m w = b -> iter l corrected w0 - w = iter l (mulmx (1%:M - C *m M)) (w0 - w).
Proof.
move=> Mw; elim: l => [|l IH] //=; rewrite -IH; move: (iter l _ w0) => v.
by rewrite /corrected -Mw -mulmxBr mulmxBl mul1mx addrAC -mulmxA -[w - v]opprB mulmxN mulmxN.
Qed.

Corollary corrected_after w l w0 :
  M *m w = b -> iter l corrected w0 = w + iter l (mulmx (1%:M - C *m M)) (w0 - w).
Proof. by move/(error_after l w0) <-; rewrite addrC subrK. Qed.

End Fixed_points.

(** TD is the case C = I, M = I - A: after l steps v_l - v = - A^l v for the fixed point v = r + A v. *)
Lemma iterate_error (ring : comRingType) n (A : 'M[ring]_n) (r v : 'M[ring]_(n, 1)) l :
  v = r + A *m v -> iterate A r l - v = - iter l (mulmx A) v.
Proof.
move=> fixed; elim: l => [|l IH] /=; first by rewrite sub0r.
by rewrite -/(iterate A r l) {1}fixed opprD addrACA subrr add0r -mulmxBr IH mulmxN.
Qed.
