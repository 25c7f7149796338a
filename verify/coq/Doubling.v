(** Doubling: after the binary digits of L, least first, the sources hold the sum of L powers. *)

From mathcomp Require Import all_ssreflect ssralg matrix.
From ContextProof Require Import Iterates.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import GRing.Theory.
Local Open Scope ring_scope.

(** The number of a list of binary digits, least first; and the digits of a number before its last one, which is 1. *)
Fixpoint number (digits : seq bool) : nat := if digits is d :: rest then d + (number rest).*2 else 0.

Fixpoint leading_upto fuel l : seq bool :=
  if fuel is fuel'.+1 then if (l <= 1)%N then [::] else odd l :: leading_upto fuel' l./2 else [::].

Definition leading l := leading_upto l l.

Lemma leading_uptoK fuel l : (0 < l <= fuel)%N -> number (rcons (leading_upto fuel l) true) = l.
Proof.
elim: fuel l => [|fuel IH] l /andP[l0 l_fuel] /=; first by case: l l0 l_fuel.
case: leqP => l1 /=; first by apply/esym/eqP; rewrite eqn_leq l1.
rewrite IH ?odd_double_half // half_gt0 l1 /= -ltnS (leq_trans _ l_fuel) //.
by rewrite -divn2 ltn_Pdiv.
Qed.

Lemma leadingK l : (0 < l)%N -> number (rcons (leading l) true) = l.
Proof. by move=> l0; apply: leading_uptoK; rewrite l0 /=. Qed.

Section Doubling.
Variables (ring : comRingType) (k : nat) (H : 'M[ring]_k) (g : 'M[ring]_(k, 1)).

(** What the sources hold: H^a, and the sums S_a and S_b of a and of b powers. *)
Definition held a b := (power H a, iterate H g a, iterate H g b).

(** One digit: (E, S, T) becomes (E E, S + E S, S + E T or T). *)
Definition double (d : bool) (x : 'M[ring]_k * 'M[ring]_(k, 1) * 'M[ring]_(k, 1)) :=
  (x.1.1 *m x.1.1, x.1.2 + x.1.1 *m x.1.2, if d then x.1.2 + x.1.1 *m x.2 else x.2).

Lemma double_held d a b : double d (held a b) = held a.*2 (if d then a + b else b)%N.
Proof. by case: d; rewrite /double /held /= -addnn power_add !iterate_add. Qed.

Fixpoint doubled ds x := if ds is d :: ds' then doubled ds' (double d x) else x.

Lemma doubled_rcons ds d x : doubled (rcons ds d) x = double d (doubled ds x).
Proof. by elim: ds x => //= d' ds IH x. Qed.

Theorem doubled_held ds a b : doubled ds (held a b) = held (a * 2 ^ size ds)%N (b + a * number ds)%N.
Proof.
elim: ds a b => [|d ds IH] a b /=; first by rewrite expn0 muln1 muln0 addn0.
rewrite double_held IH expnS mul2n; congr (held _ _); first by rewrite -doubleMl -doubleMr.
case: d; rewrite /= ?add0n; last by rewrite -doubleMl -doubleMr.
by rewrite mulnDr muln1 -doubleMl -doubleMr addnA [(b + a)%N]addnC.
Qed.

(** From H, g and 0 the digits of L give S_L. *)
Theorem doubled_digits ds : doubled ds (H, g, 0) = held (2 ^ size ds)%N (number ds).
Proof.
have -> : (H, g, 0) = held 1 0 by rewrite /held /power /= mulmx1 mulmx0 addr0.
by rewrite doubled_held mul1n mul1n add0n.
Qed.

Variables (n : nat) (B : 'M[ring]_(n, k)) (A : 'M[ring]_n) (r : 'M[ring]_(n, 1)) (L : nat).
Hypothesis krylov : forall j, (j < L)%N -> iter j (mulmx A) r = B *m iter j (mulmx H) g.

(** B S_l = v_l. *)
Lemma read_sum l : (l <= L)%N -> B *m iterate H g l = iterate A r l.
Proof.
elim: l => [|l IH] l_L; first by rewrite mulmx0.
by rewrite !iterate_last mulmxDr IH ?(ltnW l_L) // krylov.
Qed.

End Doubling.
