(** Identities of matrices of any sizes over a commutative ring, decided by a normaliser that is proved sound.

    An expression is a sum of words in letters with integer coefficients; a hypothesis "word = sum" is a rewrite rule.
    Theorem [sound]: where the rules bring two expressions to the same sum, the hypotheses make them equal. *)

From mathcomp Require Import all_ssreflect ssralg ssrint matrix.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import GRing.Theory.
Local Open Scope ring_scope.

(** ** Words and sums as data *)

(** Sizes and letters are known by their numbers; of each letter, the numbers of its sizes. *)
Definition shapes := seq (nat * nat).

Fixpoint shape (s : shapes) (x : nat) : nat * nat :=
  match s with
  | [::] => (0, 0)%N
  | p :: s' => match x with 0 => p | x'.+1 => shape s' x' end
  end.

(** Letters, each with whether it is transposed; the empty word is an identity matrix. *)
Definition word := seq (nat * bool).

Definition sum := seq (word * int).

Section Data.
Variable s : shapes.

Definition above x := (shape s x).1.
Definition across x := (shape s x).2.
Definition start (x : nat * bool) := if x.2 then across x.1 else above x.1.
Definition stop (x : nat * bool) := if x.2 then above x.1 else across x.1.

Inductive expr : nat -> nat -> Type :=
| Var x : expr (above x) (across x)
| Zero i j : expr i j
| One i : expr i i
| Tr i j : expr i j -> expr j i
| Neg i j : expr i j -> expr i j
| Times i j : expr i j -> nat -> expr i j
| Add i j : expr i j -> expr i j -> expr i j
| Mul i l j : expr i l -> expr l j -> expr i j.

Fixpoint typed i j (w : word) : bool := if w is x :: w' then (start x == i) && typed (stop x) j w' else i == j.

Definition flip_letter (x : nat * bool) := (x.1, ~~ x.2).

Fixpoint flip (w : word) : word := if w is x :: w' then flip w' ++ [:: flip_letter x] else [::].

Definition scale (c : int) (p : sum) : sum := [seq (m.1, c * m.2) | m <- p].
Definition product (p q : sum) : sum := [seq (m.1 ++ m'.1, m.2 * m'.2) | m <- p, m' <- q].

Fixpoint terms i j (e : expr i j) : sum :=
  match e with
  | Var x => [:: ([:: (x, false)], 1)]
  | Zero _ _ => [::]
  | One _ => [:: ([::], 1)]
  | Tr _ _ e => [seq (flip m.1, m.2) | m <- terms e]
  | Neg _ _ e => scale (- 1) (terms e)
  | Times _ _ e c => scale c%:Z (terms e)
  | Add _ _ e f => terms e ++ terms f
  | Mul _ _ _ e f => product (terms e) (terms f)
  end.

(** A rule: [left], a word from size [from] to size [to], becomes [right]. *)
Record rule := Rule { from : nat; to : nat; left : word; right : sum }.

Definition typeds i j (p : sum) := all (fun m => typed i j m.1) p.

(** What a rule must be to be used. *)
Definition fits (r : rule) : bool :=
  [&& left r != [::], typed (from r) (to r) (left r) & typeds (from r) (to r) (right r)].

Fixpoint strip (u w : word) : option word :=
  match u, w with
  | [::], _ => Some w
  | x :: u', y :: w' => if x == y then strip u' w' else None
  | _, [::] => None
  end.

Fixpoint at_front (rs : seq rule) (w : word) : option sum :=
  if rs is r :: rs' then
    if strip (left r) w is Some v then Some [seq (m.1 ++ v, m.2) | m <- right r] else at_front rs' w
  else None.

Fixpoint rewrite_once (rs : seq rule) (w : word) : option sum :=
  if at_front rs w is Some p then Some p
  else if w is x :: w' then
    if rewrite_once rs w' is Some p then Some [seq (x :: m.1, m.2) | m <- p] else None
  else None.

Fixpoint rewrite_all (fuel : nat) (rs : seq rule) (w : word) : sum :=
  if fuel is fuel'.+1 then
    if rewrite_once rs w is Some p then flatten [seq scale m.2 (rewrite_all fuel' rs m.1) | m <- p]
    else [:: (w, 1)]
  else [:: (w, 1)].

Definition normal fuel rs (p : sum) : sum := flatten [seq scale m.2 (rewrite_all fuel rs m.1) | m <- p].

Fixpoint insert (w : word) (c : int) (p : sum) : sum :=
  if p is (v, d) :: p' then if w == v then (v, c + d) :: p' else (v, d) :: insert w c p' else [:: (w, c)].

Definition collect (p : sum) : sum := foldr (fun m => insert m.1 m.2) [::] p.

Definition vanishes (p : sum) : bool := all (fun m => m.2 == 0) (collect p).

(** A hypothesis: both sides are equal. *)
Record equation := Equation { rows : nat; columns : nat; this : expr rows columns; that : expr rows columns }.

Definition transposed (h : equation) := Equation (Tr (this h)) (Tr (that h)).

Definition fuel : nat := 200.

(** A hypothesis as a rule, its left side rewritten by rules already known; none where that is not one word. *)
Definition as_rule (rs : seq rule) (h : equation) : option rule :=
  if normal fuel rs (terms (this h)) is [:: (w, c)] then
    let r := Rule (rows h) (columns h) w (terms (that h)) in if (c == 1) && fits r then Some r else None
  else None.

(** First that some letters are symmetric, then each hypothesis and its transpose. *)
Definition rules (symmetric hypotheses : seq equation) : seq rule :=
  let known := pmap (as_rule [::]) symmetric in
  known ++ pmap (as_rule known) (flatten [seq [:: h; transposed h] | h <- hypotheses]).

Definition check symmetric hypotheses i j (e f : expr i j) : bool :=
  vanishes (normal fuel (rules symmetric hypotheses) (terms (Add e (Neg f)))).

End Data.

(** ** What they mean, and soundness *)

Section Meaning.
Variables (R : comRingType) (size : nat -> nat).

Inductive letters : shapes -> Type :=
| NoLetter : letters [::]
| Letter i j s : 'M[R]_(size i, size j) -> letters s -> letters ((i, j) :: s).

Fixpoint get s (l : letters s) : forall x, 'M[R]_(size (above s x), size (across s x)) :=
  match l in letters s return forall x, 'M[R]_(size (above s x), size (across s x)) with
  | NoLetter => fun x => 0
  | Letter i j s A l' => fun x => match x with 0 => A | x'.+1 => get l' x' end
  end.

Variables (s : shapes) (l : letters s).

Fixpoint value i j (e : expr s i j) : 'M[R]_(size i, size j) :=
  match e with
  | Var x => get l x
  | Zero _ _ => 0
  | One _ => 1%:M
  | Tr _ _ e => (value e)^T
  | Neg _ _ e => - value e
  | Times _ _ e c => value e *+ c
  | Add _ _ e f => value e + value f
  | Mul _ _ _ e f => value e *m value f
  end.

Definition letter (x : nat * bool) : 'M[R]_(size (start s x), size (stop s x)) :=
  match x return 'M[R]_(size (start s x), size (stop s x)) with
  | (y, t) =>
    match t return 'M[R]_(size (start s (y, t)), size (stop s (y, t))) with true => (get l y)^T | false => get l y end
  end.

(** A matrix taken to have [size j] rows; zero where it does not. *)
Definition rows_as i j n (A : 'M[R]_(size i, n)) : 'M[R]_(size j, n) :=
  if i =P j is ReflectT e then match e in _ = j' return 'M[R]_(size j', n) with erefl => A end else 0.

Lemma rows_as_id i n (A : 'M[R]_(size i, n)) : rows_as i A = A.
Proof. by rewrite /rows_as; case: (i =P i) => // e; rewrite (eq_axiomK e). Qed.

Fixpoint meaning i j (w : word) : 'M[R]_(size i, size j) :=
  if w is x :: w' then rows_as i (letter x *m meaning (stop s x) j w') else rows_as i (1%:M : 'M[R]_(size j)).

Definition total i j (p : sum) : 'M[R]_(size i, size j) := \sum_(m <- p) m.2%:~R *: meaning i j m.1.

Lemma typed_cat i k j u v : typed s i k u -> typed s k j v -> typed s i j (u ++ v).
Proof.
elim: u i => [|x u IH] i /=; first by move/eqP=> ->.
by case/andP=> -> /IH; apply.
Qed.

Lemma meaning_cat i k j u v : typed s i k u -> meaning i j (u ++ v) = meaning i k u *m meaning k j v.
Proof.
elim: u i => [|x u IH] i /=; first by move/eqP=> <-; rewrite rows_as_id mul1mx.
by case/andP=> /eqP <- tu; rewrite !rows_as_id IH // mulmxA.
Qed.

Lemma typed_flip i j w : typed s i j w -> typed s j i (flip w).
Proof.
elim: w i => [|x w IH] i /=; first by rewrite eq_sym.
case/andP=> /eqP <- /IH tw; apply: typed_cat tw _.
by case: x => y [] /=; rewrite !eqxx.
Qed.

Lemma meaning_flip i j w : typed s i j w -> meaning j i (flip w) = (meaning i j w)^T.
Proof.
elim: w i => [|x w IH] i /=; first by move/eqP=> <-; rewrite !rows_as_id trmx1.
case/andP=> /eqP <- tw; rewrite (@meaning_cat j (stop s x)); last exact: typed_flip.
rewrite rows_as_id trmx_mul IH //; congr (_ *m _).
by case: x {tw} => y [] /=; rewrite !rows_as_id mulmx1 ?trmxK.
Qed.

Lemma total_nil i j : total i j [::] = 0. Proof. exact: big_nil. Qed.

Lemma total_cons i j m p : total i j (m :: p) = m.2%:~R *: meaning i j m.1 + total i j p.
Proof. exact: big_cons. Qed.

Lemma total_cat i j p q : total i j (p ++ q) = total i j p + total i j q.
Proof. exact: big_cat. Qed.

Lemma total_one i j w : total i j [:: (w, 1)] = meaning i j w.
Proof. by rewrite total_cons total_nil addr0 scale1r. Qed.

Lemma total_scale i j c p : total i j (scale c p) = c%:~R *: total i j p.
Proof.
by rewrite /total big_map scaler_sumr; apply: eq_bigr => m _; rewrite scalerA -intrM.
Qed.

Lemma typeds_scale i j c p : typeds s i j (scale c p) = typeds s i j p.
Proof. by rewrite /typeds all_map. Qed.

Lemma total_product i k j p q :
  typeds s i k p -> total i j (product p q) = total i k p *m total k j q.
Proof.
move=> tp; rewrite /total mulmx_suml big_allpairs_dep; apply: eq_big_seq => m m_in.
rewrite mulmx_sumr; apply: eq_bigr => m' _.
rewrite (@meaning_cat i k) ?(allP tp _ m_in) //.
by rewrite -scalemxAl -scalemxAr scalerA -intrM.
Qed.

Lemma typeds_product i k j p q : typeds s i k p -> typeds s k j q -> typeds s i j (product p q).
Proof.
move=> tp tq; apply/allP=> _ /allpairsP [[m m'] [/= m_in m'_in ->]].
by apply: typed_cat; [exact: (allP tp) m_in | exact: (allP tq) m'_in].
Qed.

Lemma typeds_terms i j (e : expr s i j) : typeds s i j (terms e).
Proof.
elim: e => //= [x|i'|i' j' e IH|i' j' e IH|i' j' e IH c|i' j' e IHe f IHf|i' k j' e IHe f IHf].
- by rewrite /start /stop /= !eqxx.
- by rewrite eqxx.
- by rewrite /typeds all_map; apply: sub_all IH => m; exact: typed_flip.
- by rewrite typeds_scale.
- by rewrite typeds_scale.
- by rewrite /typeds all_cat; apply/andP.
- exact: typeds_product IHe IHf.
Qed.

Lemma total_terms i j (e : expr s i j) : total i j (terms e) = value e.
Proof.
elim: e => /= [x|i' j'|i'|i' j' e IH|i' j' e IH|i' j' e IH c|i' j' e IHe f IHf|i' k j' e IHe f IHf].
- by rewrite total_one /= !rows_as_id mulmx1.
- exact: total_nil.
- by rewrite total_one /= rows_as_id.
- rewrite -IH /total big_map linear_sum; apply: eq_big_seq => m m_in.
  by rewrite linearZ /= (meaning_flip (allP (typeds_terms e) _ m_in)).
- by rewrite total_scale IH scaleN1r.
- by rewrite total_scale IH -scaler_nat.
- by rewrite total_cat IHe IHf.
- by rewrite -IHe -IHf; apply: total_product; exact: typeds_terms.
Qed.

Definition rule_holds (r : rule) := meaning (from r) (to r) (left r) = total (from r) (to r) (right r).

(** A usable and true rule. *)
Definition sound_rule r := fits s r /\ rule_holds r.

Fixpoint every (A : Type) (P : A -> Prop) (xs : seq A) : Prop := if xs is x :: xs' then P x /\ every P xs' else True.

Lemma strip_cat u w v : strip u w = Some v -> w = u ++ v.
Proof.
elim: u w => [|x u IH] [|y w] //=; try by case=> ->.
by case: eqP => // -> /IH ->.
Qed.

Lemma typed_split k b j u v : typed s k b u -> typed s k j (u ++ v) -> typed s b j v.
Proof.
elim: u k => [|x u IH] k /=; first by move/eqP=> ->.
by case/andP=> _ /IH H /andP[_ /H].
Qed.

Definition becomes i j w p := typeds s i j p /\ meaning i j w = total i j p.

Lemma at_front_sound rs i j w p :
  every sound_rule rs -> typed s i j w -> at_front rs w = Some p -> becomes i j w p.
Proof.
elim: rs => //= r rs IH [[/and3P[left_some left_typed right_typed] holds] /IH {}IH] tw.
case E: (strip (left r) w) => [v|]; last exact: IH.
case=> <-; move/strip_cat: E tw => -> tw.
have /eqP start_i : from r == i.
  by case: (left r) left_some left_typed tw => //= x u _ /andP[/eqP <- _] /andP[/eqP <- _].
move: tw; rewrite -start_i => tw; have tv := typed_split left_typed tw.
split.
  by rewrite /typeds all_map; apply: sub_all right_typed => m /= tm; exact: typed_cat tm tv.
rewrite (meaning_cat _ _ left_typed) holds /total mulmx_suml big_map; apply: eq_big_seq => m m_in /=.
by rewrite (@meaning_cat _ (to r)) ?(allP right_typed _ m_in) // scalemxAl.
Qed.

Lemma rewrite_once_sound rs i j w p :
  every sound_rule rs -> typed s i j w -> rewrite_once rs w = Some p -> becomes i j w p.
Proof.
move=> ok; elim: w i p => [|x w IH] i p tw /=.
  by case E: (at_front rs [::]) => [q|] // [<-]; exact: at_front_sound E.
case E: (at_front rs (x :: w)) => [q|].
  by case=> <-; exact: at_front_sound E.
case E': (rewrite_once rs w) => [q|] // [<-].
case/andP: tw => /eqP <- /IH /(_ E') [tq eq_q]; split.
  by rewrite /typeds all_map; apply: sub_all tq => m /= ->; rewrite eqxx.
rewrite /= rows_as_id eq_q /total mulmx_sumr big_map; apply: eq_bigr => m _ /=.
by rewrite rows_as_id scalemxAr.
Qed.

Lemma normal_sound_if (f : word -> sum) i j p :
  (forall w, typed s i j w -> becomes i j w (f w)) -> typeds s i j p ->
  typeds s i j (flatten [seq scale m.2 (f m.1) | m <- p]) /\
  total i j p = total i j (flatten [seq scale m.2 (f m.1) | m <- p]).
Proof.
move=> ok; elim: p => [|m p IH] //= /andP[/ok [tm eq_m] /IH [tq eq_q]]; split.
  by rewrite /typeds all_cat; apply/andP; split => //; rewrite -/(typeds s i j _) typeds_scale.
by rewrite total_cons eq_q total_cat total_scale eq_m.
Qed.

Lemma rewrite_all_sound n rs i j w :
  every sound_rule rs -> typed s i j w -> becomes i j w (rewrite_all n rs w).
Proof.
move=> ok; elim: n w => [|n IH] w tw /=.
  by split; rewrite ?total_one //= tw.
case E: (rewrite_once rs w) => [p|]; last by split; rewrite ?total_one //= tw.
have [tp eq_p] := rewrite_once_sound ok tw E.
by rewrite /becomes eq_p; exact: (normal_sound_if (f := rewrite_all n rs)).
Qed.

Lemma normal_sound n rs i j p :
  every sound_rule rs -> typeds s i j p -> total i j p = total i j (normal n rs p).
Proof.
by move=> ok tp; apply: (proj2 (normal_sound_if (f := rewrite_all n rs) _ tp)) => w; exact: rewrite_all_sound.
Qed.

Lemma total_insert i j w c p : total i j (insert w c p) = c%:~R *: meaning i j w + total i j p.
Proof.
elim: p => [|[v d] p IH] /=; first by rewrite total_cons.
case: eqP => [->|_]; rewrite !total_cons /=; first by rewrite intrD scalerDl addrA.
by rewrite IH addrCA.
Qed.

Lemma vanishes_sound i j p : vanishes p -> total i j p = 0.
Proof.
have <- : total i j (collect p) = total i j p.
  by elim: p => //= m p IH; rewrite total_insert IH total_cons.
rewrite /vanishes; elim: (collect p) => [|m q IH] /=; first by rewrite total_nil.
by case/andP=> /eqP m0 /IH; rewrite total_cons m0 scale0r add0r.
Qed.

Definition holds (h : equation s) := value (this h) = value (that h).

Lemma as_rule_sound rs h r : every sound_rule rs -> holds h -> as_rule rs h = Some r -> sound_rule r.
Proof.
move=> ok true_h; rewrite /as_rule.
case E: (normal _ _ _) => [|[w c] [|]] //; case: ifP => // /andP[/eqP c1 r_fits] [<-]; split => //.
rewrite /rule_holds /= total_terms -true_h -total_terms (normal_sound fuel ok (typeds_terms _)) E c1.
by rewrite total_one.
Qed.

Lemma every_cat (A : Type) (P : A -> Prop) xs ys : every P xs -> every P ys -> every P (xs ++ ys).
Proof. by elim: xs => //= x xs IH [Px /IH H] /H. Qed.

Lemma as_rules_sound rs hs : every sound_rule rs -> every holds hs -> every sound_rule (pmap (as_rule rs) hs).
Proof.
move=> ok; elim: hs => //= h hs IH [/(as_rule_sound ok) true_h /IH {}IH].
by case E: (as_rule rs h) => [r|] //=; split => //; exact: true_h.
Qed.

Lemma rules_sound symmetric hypotheses :
  every holds symmetric -> every holds hypotheses -> every sound_rule (rules symmetric hypotheses).
Proof.
move=> ok_s ok_h; have ok := as_rules_sound (rs := [::]) I ok_s; apply: every_cat => //.
apply: as_rules_sound => //; elim: hypotheses ok_h => //= h hs IH [true_h /IH {}IH].
by split=> //; split=> //; rewrite /holds /= true_h.
Qed.

(** An equation that holds. *)
Record given := Given { said : equation s; true_said : holds said }.

Lemma all_true (gs : seq given) : every holds [seq said g | g <- gs].
Proof. by elim: gs => //= g gs IH; split=> //; exact: true_said. Qed.

Theorem sound (symmetric hypotheses : seq given) i j (e f : expr s i j) :
  check [seq said g | g <- symmetric] [seq said g | g <- hypotheses] e f -> value e = value f.
Proof.
move=> ok; have ok_r := rules_sound (all_true symmetric) (all_true hypotheses).
apply/eqP; rewrite -subr_eq0; apply/eqP; rewrite -[_ - _]/(value (Add e (Neg f))) -total_terms.
by rewrite (normal_sound fuel ok_r (typeds_terms _)); exact: vanishes_sound.
Qed.

End Meaning.
