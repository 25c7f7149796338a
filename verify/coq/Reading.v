(** Tactic [words]: reads letters, hypotheses and goal as data and applies [sound]; all else is computation. *)

From mathcomp Require Import all_ssreflect ssralg matrix.
From ContextProof Require Import Words.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import GRing.Theory.
Local Open Scope ring_scope.

(** A 1 x 1 matrix is symmetric. *)
Lemma scalar_symmetric (R : comRingType) (x : 'M[R]_1) : x^T = x.
Proof. by apply/matrixP=> i j; rewrite mxE !ord1. Qed.

(** The place of [x] in a list. *)
Ltac index x xs :=
  lazymatch xs with
  | x :: _ => constr:(0%N)
  | _ :: ?xs' => let k := index x xs' in constr:(S k)
  end.

(** The numbers of a matrix's sizes. *)
Ltac with_shape sizes A tac :=
  lazymatch type of A with
  | matrix _ ?m ?n => let i := index m sizes in let j := index n sizes in tac i j
  end.

Ltac number A l :=
  lazymatch l with
  | Letter A _ => constr:(0%N)
  | Letter _ ?l' => let k := number A l' in constr:(S k)
  end.

(** A tuple (tt, A, B, ..) of matrices, as letters. *)
Ltac read_letters R sizes As :=
  let size := constr:(nth 0%N sizes) in
  let rec go As l :=
    lazymatch As with
    | tt => l
    | (?As', ?A) => with_shape sizes A ltac:(fun i j => let l' := constr:(@Letter R size i j _ A l) in go As' l')
    end in
  go As constr:(@NoLetter R size).

Ltac read_expr sizes s l t :=
  let rec go t :=
    lazymatch t with
    | trmx ?A => let a := go A in constr:(Tr a)
    | mulmx ?A ?B => let a := go A in let b := go B in constr:(Mul a b)
    | GRing.opp ?A => let a := go A in constr:(Neg a)
    | GRing.add ?A ?B => let a := go A in let b := go B in constr:(Add a b)
    | GRing.natmul ?A ?c => let a := go A in constr:(Times a c)
    | GRing.zero (matrix_zmodType _ ?m ?n) =>
      let i := index m sizes in let j := index n sizes in constr:(@Zero s i j)
    | @scalar_mx _ ?n _ => let i := index n sizes in constr:(@One s i)
    | _ => let x := number t l in constr:(@Var s x)
    end in
  go t.

(** A tuple (tt, h, h', ..) of proofs of equations, as a list of what is given. *)
Ltac read_equations sizes s l names hs :=
  let rec go hs known :=
    lazymatch hs with
    | tt => known
    | (?hs', ?h) =>
      lazymatch type of h with
      | ?A = ?B =>
        let a := read_expr sizes s l A in
        let b := read_expr sizes s l B in
        go hs' constr:(@Given _ _ s names (Equation a b) h :: known)
      end
    end in
  go hs constr:(@nil (given names)).

(** [words R sizes letters symmetric hypotheses] proves an equation between expressions in the letters. What every
    node of an expression would repeat gets a name. *)
Ltac words R sizes As symmetric hypotheses :=
  let l := read_letters R sizes As in
  lazymatch type of l with
  | letters _ ?size ?s =>
    let s' := fresh "shapes" in
    let l' := fresh "letters" in
    pose (s' := s);
    pose (l' := l : letters R size s');
    let known_s := read_equations sizes s' l l' symmetric in
    let known_h := read_equations sizes s' l l' hypotheses in
    lazymatch goal with
    | |- ?A = ?B =>
      let a := read_expr sizes s' l A in
      let b := read_expr sizes s' l B in
      refine (@sound R size s' l' known_s known_h _ _ a b _); vm_compute; reflexivity
    end
  end.
