(** The Krylov space: A^j r in the span of the tokens, by induction on j; and the powers that the sources hold. *)

From mathcomp Require Import all_ssreflect ssralg matrix.
From ContextProof Require Import Iterates.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import GRing.Theory.
Local Open Scope ring_scope.

Section Spans.
Variables (ring : comRingType) (n : nat) (b : nat -> 'M[ring]_(n, 1)).

(** A sum of multiples of the first m vectors b_0, b_1, .. *)
Definition spanned m (v : 'M[ring]_(n, 1)) := exists c : nat -> ring, v = \sum_(i < m) c i *: b i.

Lemma spanned_zero m : spanned m 0.
Proof. by exists (fun=> 0); rewrite big1 // => i _; rewrite scale0r. Qed.

Lemma spanned_add m u v : spanned m u -> spanned m v -> spanned m (u + v).
Proof.
case=> c -> [d ->]; exists (fun i => c i + d i); rewrite -big_split /=.
by apply: eq_bigr => i _; rewrite scalerDl.
Qed.

Lemma spanned_scale m (a : ring) v : spanned m v -> spanned m (a *: v).
Proof.
by case=> c ->; exists (fun i => a * c i); rewrite scaler_sumr; apply: eq_bigr => i _; rewrite scalerA.
Qed.

Lemma spanned_sum m (I : Type) (s : seq I) (P : pred I) F :
  (forall i, P i -> spanned m (F i)) -> spanned m (\sum_(i <- s | P i) F i).
Proof. by move=> all_in; elim/big_rec: _ => [|i v /all_in]; [exact: spanned_zero | exact: spanned_add]. Qed.

Lemma spanned_more m m' v : (m <= m')%N -> spanned m v -> spanned m' v.
Proof.
move=> m_m' [c ->]; exists (fun i => if (i < m)%N then c i else 0).
rewrite (big_ord_widen _ (fun i => c i *: b i) m_m') big_mkcond /=.
by apply: eq_bigr => i _; case: ifP => //; rewrite scale0r.
Qed.

Lemma spanned_itself m i : (i < m)%N -> spanned m (b i).
Proof.
move=> i_m; exists (fun j => (j == i)%:R); rewrite (bigD1 (Ordinal i_m)) //= eqxx scale1r big1 ?addr0 // => j j_i.
by rewrite (_ : (_ == i) = false) ?scale0r //; apply: contraNF j_i => /eqP j_i; apply/eqP/val_inj.
Qed.

Variables (A : 'M[ring]_n) (r : 'M[ring]_(n, 1)).
Hypothesis first : spanned 1 r.
Hypothesis round : forall i, spanned i.+2 (A *m b i).

(** A takes the span of m vectors into that of one more. *)
Lemma spanned_image m v : spanned m v -> spanned m.+1 (A *m v).
Proof.
case=> c ->; rewrite mulmx_sumr; apply: spanned_sum => i _.
by rewrite -scalemxAr; apply/spanned_scale/(@spanned_more i.+2); first exact: ltn_ord.
Qed.

(** A^j r lies in the span of the first j + 1 tokens. *)
Theorem krylov_spanned j : spanned j.+1 (iter j (mulmx A) r).
Proof. by elim: j => [|j IH] //=; exact: spanned_image. Qed.

(** Hence so does every iterate of TD that is made of these powers. *)
Theorem iterate_spanned l : spanned l (iterate A r l).
Proof.
rewrite iterate_sum; apply: spanned_sum => j _; apply: (@spanned_more j.+1); first exact: ltn_ord.
exact: krylov_spanned.
Qed.

(** Where the last of k tokens makes no new one the span is invariant: it has every power and every iterate. *)
Variable k : nat.
Hypothesis last : forall i, (i < k)%N -> spanned k (A *m b i).
Hypothesis some : (0 < k)%N.

Theorem krylov_invariant j : spanned k (iter j (mulmx A) r).
Proof.
elim: j => [|j [c IH]] /=; first exact: spanned_more some first.
rewrite IH mulmx_sumr; apply: spanned_sum => i _; rewrite -scalemxAr; exact/spanned_scale/last.
Qed.

Theorem iterate_invariant l : spanned k (iterate A r l).
Proof. by rewrite iterate_sum; apply: spanned_sum => j _; exact: krylov_invariant. Qed.

End Spans.

(** A round makes b_{j+1} = A b_j - c with c among the tokens before it: A b_j = b_{j+1} + c is spanned. *)
Lemma round_spanned (ring : comRingType) n (b : nat -> 'M[ring]_(n, 1)) (A : 'M[ring]_n) i c :
  spanned b i.+1 c -> b i.+1 = A *m b i - c -> spanned b i.+2 (A *m b i).
Proof.
move=> c_in next; rewrite -[A *m _](subrK c) -next; apply: spanned_add; first exact: spanned_itself.
exact: spanned_more c_in.
Qed.

(** The first m tokens as one matrix: what it multiplies is spanned by them, and nothing else is. *)
Section Banks.
Variables (ring : comRingType) (n : nat) (b : nat -> 'M[ring]_(n, 1)).

Definition bank m : 'M[ring]_(n, m) := \matrix_(i, j) b j i ord0.

Lemma bank_sum m (x : 'M[ring]_(m, 1)) : bank m *m x = \sum_(j < m) x j ord0 *: b j.
Proof.
apply/matrixP => i j; rewrite !mxE summxE ord1; apply: eq_bigr => h _.
by rewrite !mxE mulrC.
Qed.

Lemma bank_spanned m (x : 'M[ring]_(m, 1)) : spanned b m (bank m *m x).
Proof.
exists (fun j => if insub j is Some i then x (i : 'I_m) ord0 else 0); rewrite bank_sum.
by apply: eq_bigr => h _; rewrite insubT //= => h_m; congr (x _ _ *: _); exact: val_inj.
Qed.

Lemma spanned_bank m v : spanned b m v -> exists x : 'M[ring]_(m, 1), v = bank m *m x.
Proof.
case=> c ->; exists (\col_i c i); rewrite bank_sum.
by apply: eq_bigr => h _; rewrite mxE.
Qed.

End Banks.

Section Powers.
Variables (ring : comRingType) (n k : nat) (B W : 'M[ring]_(n, k)) (A : 'M[ring]_n) (r : 'M[ring]_(n, 1)) (L : nat).
Hypothesis biorthogonal : W^T *m B = 1%:M.
Hypothesis spanned_by_B : forall j, (j < L)%N -> exists x : 'M_(k, 1), iter j (mulmx A) r = B *m x.

(** What the executor assumes: A^j r = B H^j g0 for H = W'A B and g0 = W'r. *)
Theorem krylov_powers j : (j < L)%N -> iter j (mulmx A) r = B *m iter j (mulmx (W^T *m A *m B)) (W^T *m r).
Proof.
have BW : forall i, (i < L)%N -> B *m (W^T *m iter i (mulmx A) r) = iter i (mulmx A) r.
  by move=> i /spanned_by_B [x ->]; rewrite [W^T *m _]mulmxA biorthogonal mul1mx.
elim: j => [|j IH] j_L /=; first by rewrite (BW 0%N).
by rewrite -[LHS](BW j.+1) // [in LHS]/= IH ?(ltnW j_L) // !mulmxA.
Qed.

End Powers.
