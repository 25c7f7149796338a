(** The executor at every depth: from one layer's step, by induction on the number of layers. *)

From mathcomp Require Import all_ssreflect ssralg matrix.
From ContextProof Require Import Iterates.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import GRing.Theory.
Local Open Scope ring_scope.

Section Executor.
Variables (ring : comRingType) (n k q : nat).
Variables (B : 'M[ring]_(n, k)) (H : 'M[ring]_k) (g0 : 'M[ring]_(k, 1)) (E : 'M[ring]_(n, q)).
Variables (A : 'M[ring]_n) (r : 'M[ring]_(n, 1)).

(** [tokens s c] has s on the sources and c on the queries; [attend] is the layer. *)
Variables (width count : nat) (attend : 'M[ring]_(width, count) -> 'M[ring]_(width, count)).
Variable tokens : 'M[ring]_(k, 1) -> 'M[ring]_(q, 1) -> 'M[ring]_(width, count).
Hypothesis step : forall s c, attend (tokens s c) = tokens (H *m s) (c - E^T *m B *m s).

Variable L : nat.
Hypothesis krylov : forall j, (j < L)%N -> iter j (mulmx A) r = B *m iter j (mulmx H) g0.

(** After l layers the sources hold H^l g0 and the queries -E' (r + A r + .. + A^(l-1) r), which is -E' v_l. *)
Theorem every_depth l :
  (l <= L)%N -> iter l attend (tokens g0 0) = tokens (iter l (mulmx H) g0) (- (E^T *m iterate A r l)).
Proof.
elim: l => [|l IH] l_L; first by rewrite /= mulmx0 oppr0.
rewrite [LHS]/= (IH (ltnW l_L)) step; congr (tokens _ _).
by rewrite iterate_last mulmxDr opprD krylov // mulmxA.
Qed.

End Executor.

(** Two recurrences side by side, read by one decoder D. *)
Section Two.
Variables (ring : comRingType) (n m : nat) (D : 'M[ring]_(n, m)) (H1 H2 : 'M[ring]_m) (g1 g2 : 'M[ring]_(m, 1)).
Variables (A1 A2 : 'M[ring]_n) (r1 r2 : 'M[ring]_(n, 1)).
Variables (width count : nat) (attend : 'M[ring]_(width, count) -> 'M[ring]_(width, count)).
Variable tokens :
  'M[ring]_(m, 1) -> 'M[ring]_(m, 1) -> 'M[ring]_(n, 1) -> 'M[ring]_(n, 1) -> 'M[ring]_(width, count).
Hypothesis step : forall p1 p2 v1 v2,
  attend (tokens p1 p2 v1 v2) = tokens (H1 *m p1) (H2 *m p2) (v1 + D *m p1) (v2 + D *m p2).

Variable L : nat.
Hypothesis krylov1 : forall j, (j < L)%N -> iter j (mulmx A1) r1 = D *m iter j (mulmx H1) g1.
Hypothesis krylov2 : forall j, (j < L)%N -> iter j (mulmx A2) r2 = D *m iter j (mulmx H2) g2.

Theorem every_depth_of_two l :
  (l <= L)%N -> iter l attend (tokens g1 g2 0 0) =
  tokens (iter l (mulmx H1) g1) (iter l (mulmx H2) g2) (iterate A1 r1 l) (iterate A2 r2 l).
Proof.
elim: l => [|l IH] l_L //; rewrite [LHS]/= (IH (ltnW l_L)) step.
by rewrite !iterate_last krylov1 // krylov2.
Qed.

End Two.
