(** The gated delta rule over time: states after T tokens, chunks, recall; by induction on tokens. *)

From mathcomp Require Import all_ssreflect ssralg matrix.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import GRing.Theory.
Local Open Scope ring_scope.

(** ** Maps S -> S M + N, composed in the order of time *)
Section Affine.
Variables (ring : comRingType) (d_v d : nat).

Definition affine := ('M[ring]_d * 'M[ring]_(d_v, d))%type.
Definition act (S : 'M[ring]_(d_v, d)) (x : affine) := S *m x.1 + x.2.
Definition after (x y : affine) : affine := (x.1 *m y.1, x.2 *m y.1 + y.2).
Definition nothing : affine := (1%:M, 0).

Lemma act_after S x y : act S (after x y) = act (act S x) y.
Proof. by rewrite /act /after /= mulmxDl mulmxA addrA. Qed.

Lemma afterA x y z : after (after x y) z = after x (after y z).
Proof. by rewrite /after /= mulmxDl !mulmxA addrA. Qed.

(** Token by token, or all of them composed: M = M_1 .. M_T, N = sum of N_t M_{t+1} .. M_T. *)
Theorem composed S (xs : seq affine) : foldl act S xs = act S (foldr after nothing xs).
Proof.
elim: xs S => [|x xs IH] S /=; first by rewrite /act /= mulmx1 addr0.
by rewrite IH act_after.
Qed.

Lemma composed_cat (xs ys : seq affine) :
  foldr after nothing (xs ++ ys) = after (foldr after nothing xs) (foldr after nothing ys).
Proof.
elim: xs => [|x xs IH] /=; last by rewrite IH afterA.
by rewrite /after /nothing /= mul1mx mul0mx add0r -surjective_pairing.
Qed.

End Affine.

Section Delta_rule.
Variables (ring : comRingType) (d d_v : nat).

(** A token: key, value, rate, gate. *)
Record token := Token { key : 'M[ring]_(d, 1); value : 'M[ring]_(d_v, 1); rate : 'M[ring]_1; gate : 'M[ring]_d }.

Definition moved t : affine ring d_v d :=
  (gate t - gate t *m key t *m rate t *m (key t)^T, value t *m rate t *m (key t)^T).

Definition recur S t := act S (moved t).

(** The state after T tokens is the one before them times the product of the maps, plus what they wrote. *)
Theorem recur_composed S ts : foldl recur S ts = act S (foldr (@after _ _ _) (nothing _ _ _) (map moved ts)).
Proof. by rewrite -composed; elim: ts S => //= t ts IH S; exact: IH. Qed.

(** ** Chunks: S G - S W H' + Z H' for keys H, weights W, values Z and the gate G *)
Record chunk C := Chunk {
  keys : 'M[ring]_(d, C);
  weights : 'M[ring]_(d, C);
  values : 'M[ring]_(d_v, C);
  through : 'M[ring]_d
}.

Definition state C (x : chunk C) S := S *m through x - S *m weights x *m (keys x)^T + values x *m (keys x)^T.

(** A chunk does to every state what its tokens do, one after the other: from one token, and from a token more. *)
Section Chunks.
Variables (single : token -> chunk 1) (append : forall C, chunk C -> token -> chunk (C + 1)).
Hypothesis one_token : forall t S, state (single t) S = recur S t.
Hypothesis token_more : forall C (x : chunk C) t S, state (append x t) S = recur (state x S) t.

(** Later tokens are first in the list. *)
Fixpoint grown t ts : {C & chunk C} :=
  if ts is t' :: ts' then existT _ _ (append (projT2 (grown t' ts')) t) else existT _ _ (single t).

Theorem chunk_recurs t ts S : state (projT2 (grown t ts)) S = foldl recur S (rev (t :: ts)).
Proof.
rewrite foldl_rev.
by elim: ts t => [|t' ts IH] t; [exact: one_token | rewrite [LHS]token_more IH].
Qed.

End Chunks.

(** ** Recall *)

(** A token with gate 1 and a key orthogonal to k leaves the recall of k as it is. *)
Lemma kept t (k : 'M[ring]_(d, 1)) S : gate t = 1%:M -> (key t)^T *m k = 0 -> recur S t *m k = S *m k.
Proof.
move=> one tk; rewrite /recur /act /= one mul1mx mulmxDl -mulmxA mulmxBl mul1mx -!mulmxA tk !mulmx0 subr0.
by rewrite addr0.
Qed.

(** A token with gate 1 and b |k|^2 = 1 writes its value at its key. *)
Lemma written t S : gate t = 1%:M -> rate t *m (key t)^T *m key t = 1%:M -> recur S t *m key t = value t.
Proof.
move=> one unit; have same m (X : 'M_(m, 1)) : X *m rate t *m (key t)^T *m key t = X.
  by rewrite -!mulmxA (mulmxA (rate t)) unit mulmx1.
by rewrite /recur /act /= one mul1mx mulmxDl same -mulmxA mulmxBl mul1mx same subrr mulmx0 add0r.
Qed.

Definition leaves (k : 'M[ring]_(d, 1)) t := gate t = 1%:M /\ (key t)^T *m k = 0.

Lemma kept_all ts (k : 'M[ring]_(d, 1)) S :
  (forall t, List.In t ts -> leaves k t) -> foldl recur S ts *m k = S *m k.
Proof.
elim: ts S => [|t ts IH] S //= all_leave; rewrite IH; last by move=> x x_in; apply: all_leave; right.
by have [one tk] := all_leave t (or_introl erefl); exact: kept.
Qed.

(** Whatever came before a token, its value is recalled exactly after any later ones that leave its key. *)
Theorem recalled S before t later :
  gate t = 1%:M -> rate t *m (key t)^T *m key t = 1%:M -> (forall x, List.In x later -> leaves (key t) x) ->
  foldl recur S (before ++ t :: later) *m key t = value t.
Proof. by move=> one unit leave; rewrite foldl_cat /= kept_all // written. Qed.

End Delta_rule.
