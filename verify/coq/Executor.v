(** The executor at every depth: from one layer's step, by induction on the number of layers.

    Powers are iterated products, for matrices of any size: A^j r is [iter j (mulmx A) r]. *)

From mathcomp Require Import all_ssreflect ssralg matrix.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import GRing.Theory.
Local Open Scope ring_scope.

Section Executor.
Variables (ring : comRingType) (n k q : nat).
Variables (B : 'M[ring]_(n, k)) (H : 'M[ring]_k) (g0 : 'M[ring]_(k, 1)) (E : 'M[ring]_(n, q)).
Variables (A : 'M[ring]_n) (r : 'M[ring]_(n, 1)).

Definition iterate l := iter l (fun v => r + A *m v) (0 : 'M[ring]_(n, 1)).

(** The iterates of TD are the partial sums of A^j r. *)
Lemma iterate_sum l : iterate l = \sum_(j < l) iter j (mulmx A) r.
Proof.
elim: l => [|l IH]; first by rewrite big_ord0.
by rewrite big_ord_recl /= -/(iterate l) IH mulmx_sumr.
Qed.

(** [tokens s c] has s on the sources and c on the queries; [attend] is the layer. *)
Variables (width count : nat) (attend : 'M[ring]_(width, count) -> 'M[ring]_(width, count)).
Variable tokens : 'M[ring]_(k, 1) -> 'M[ring]_(q, 1) -> 'M[ring]_(width, count).
Hypothesis step : forall s c, attend (tokens s c) = tokens (H *m s) (c - E^T *m B *m s).

Variable L : nat.
Hypothesis krylov : forall j, (j < L)%N -> iter j (mulmx A) r = B *m iter j (mulmx H) g0.

(** After l layers the sources hold H^l g0 and the queries -E' (r + A r + .. + A^(l-1) r), which is -E' v_l. *)
Theorem every_depth l :
  (l <= L)%N -> iter l attend (tokens g0 0) = tokens (iter l (mulmx H) g0) (- (E^T *m iterate l)).
Proof.
elim: l => [|l IH] l_L; first by rewrite /= mulmx0 oppr0.
rewrite [LHS]/= (IH (ltnW l_L)) step; congr (tokens _ _).
by rewrite !iterate_sum big_ord_recr mulmxDr opprD /= krylov // mulmxA.
Qed.

End Executor.
