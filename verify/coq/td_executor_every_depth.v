(** td.executor at every depth: the induction of [Executor.every_depth], given the layer as it was built.

    [attend] and [tokens] are those of the source that was generated for the claim "step". *)

From mathcomp Require Import all_ssreflect ssralg matrix.
From ContextProof Require Import Words Executor td_executor_step.

Local Open Scope ring_scope.

Section Every_depth.
Variables (ring : comRingType) (k n q : nat).
Variables (B W : 'M[ring]_(n, k)) (E : 'M[ring]_(n, q)) (H : 'M[ring]_k) (g0 : 'M[ring]_(k, 1)).
Variables (A : 'M[ring]_n) (r : 'M[ring]_(n, 1)) (L : nat).
Hypothesis biorthogonal : W^T *m B = 1%:M.
Hypothesis krylov : forall j, (j < L)%N -> iter j (mulmx A) r = B *m iter j (mulmx H) g0.

Definition attend := step.attend ring k n q.
Definition tokens (s : 'M[ring]_(k, 1)) (c : 'M[ring]_(q, 1)) := step.tokens ring k n q B W E H c s.

Definition in_x := step.in_x ring n.
Definition in_y := step.in_y ring n.
Definition in_r := step.in_r ring n.
Definition at_source := step.at_source ring k q.
Definition at_query := step.at_query ring k q.

Lemma step s c : attend (tokens s c) = tokens (H *m s) (c - E^T *m B *m s).
Proof.
rewrite [LHS](step.layer ring k n q B W E H c s biorthogonal).
rewrite /tokens /step.tokens -/in_x -/in_y -/in_r -/at_source -/at_query.
words ring [:: 1%N; k; n; q; sumn (step.fields n); sumn (step.kinds k q)]
  (tt, B, W, E, H, c, s, in_x, in_y, in_r, at_source, at_query) tt tt.
Qed.

(** After l layers the last coordinate of query number i is minus the inner product of v_l and that query. *)
Theorem queries l :
  (l <= L)%N -> in_r^T *m iter l attend (tokens g0 0) *m at_query = - ((iterate A r l)^T *m E).
Proof.
move=> l_L; rewrite (every_depth step krylov l_L) [LHS]step.tokens_query_r.
words ring [:: 1%N; n; q] (tt, E, (iterate A r l)) tt tt.
Qed.

End Every_depth.

Print Assumptions queries.
