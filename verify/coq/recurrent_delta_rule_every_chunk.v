(** recurrent.delta-rule over time: chunks of any number of tokens, as built, give the state of the recurrence.

    A chunk of one token and a chunk with a token more are those of the source generated for the claim "chunks". *)

From mathcomp Require Import all_ssreflect ssralg matrix.
From ContextProof Require Import DeltaRule recurrent_delta_rule_chunks.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import GRing.Theory.
Local Open Scope ring_scope.

Section Every_chunk.
Variables (ring : comRingType) (d d_v : nat).
Implicit Types (t : token ring d d_v) (S : 'M[ring]_(d_v, d)).

Definition single t : chunk ring d d_v 1 :=
  Chunk (one_token.keys ring d (key t)) (one_token.weights ring d (gate t) (rate t) (key t))
    (one_token.values ring d_v (rate t) (value t)) (one_token.gate ring d (gate t)).

Definition append C (x : chunk ring d d_v C) t : chunk ring d d_v (C + 1) :=
  Chunk (a_token_more.keys ring C d (gate t) (keys x) (key t))
    (a_token_more.weights ring C d (gate t) (through x) (keys x) (weights x) (rate t) (key t))
    (a_token_more.values ring C d d_v (gate t) (keys x) (values x) (rate t) (key t) (value t))
    (a_token_more.gate ring d (gate t) (through x)).

Lemma recurrence t S :
  recur S t = S *m gate t *m (1%:M - key t *m rate t *m (key t)^T) + value t *m rate t *m (key t)^T.
Proof. by rewrite /recur /act /moved /= !mulmxBr mulmx1 !mulmxA. Qed.

Lemma single_state t S : state (single t) S = recur S t.
Proof. rewrite recurrence; exact (one_token.chunk_state ring d d_v (gate t) S (rate t) (key t) 0 (value t)). Qed.

Lemma append_state C (x : chunk ring d d_v C) t S : state (append x t) S = recur (state x S) t.
Proof.
rewrite recurrence /state [LHS](a_token_more.chunk_state ring C d d_v (gate t) (through x) (keys x) 0 (weights x) 0
  (values x) S (rate t) (key t) 0 (value t)); congr (_ *m _ *m _ + _).
by rewrite addrAC.
Qed.

(** Any tokens, one after the other: as one chunk, as a recurrence, and as one map composed of theirs. *)
Theorem every_chunk t ts S :
  let tokens := rev (t :: ts) in
  state (projT2 (grown single append t ts)) S = foldl (@recur ring d d_v) S tokens /\
  foldl (@recur ring d d_v) S tokens = act S (foldr (@after _ _ _) (nothing _ _ _) (map (@moved ring d d_v) tokens)).
Proof.
split; first by apply: chunk_recurs; [exact: single_state | exact: append_state].
exact: recur_composed.
Qed.

(** Recall: b |k|^2 = 1 and gate 1 at the token, gates 1 and keys orthogonal to its own at all later ones. *)
Theorem recall before t later S :
  gate t = 1%:M -> rate t *m (key t)^T *m key t = 1%:M ->
  (forall x, List.In x later -> gate x = 1%:M /\ (key x)^T *m key t = 0) ->
  foldl (@recur ring d d_v) S (before ++ t :: later) *m key t = value t.
Proof. exact: recalled. Qed.

End Every_chunk.

Definition all_of_them := (every_chunk, recall).
Print Assumptions all_of_them.
