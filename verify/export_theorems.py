"""What the exported theorems say after any number of layers, digits, tokens or rounds.

A theorem names the letters that are its state and what one step makes of them; what follows is stated in Coq with an
instance of a theorem of the fixed library, or the tactic `words`, for a proof. What is said wrongly is refused by Coq.
"""

from __future__ import annotations

from typing import Any

from constructions.online_learning.weighted_majority import VARIANTS
from constructions.temporal_difference.doubling import BANKS
from proofs_check.temporal_difference.doubling import DEPTHS

from .export_inductions import Induction

EXECUTOR = """
Section Every_depth.
Variables ({A} : 'M[ring]_{n}) ({r} : 'M[ring]_({n}, 1)) ({g0} : 'M[ring]_({k}, 1)) ({L} : nat).
Hypothesis {krylov} : forall j, (j < {L})%N ->
  iter j (mulmx {A}) {r} = {B} *m iter j (mulmx {recurrence}) {g0}.
Lemma every_depth l : (l <= {L})%N ->
  iter l {attend} ({tokens_at} {g0} 0) =
  {tokens_at} (iter l (mulmx {recurrence}) {g0}) (- ({E}^T *m iterate {A} {r} l)).
Proof.
exact (@Executor.every_depth _ _ _ _ {B} {recurrence} {g0} {E} {A} {r} _ _ {attend} {tokens_at} {step} {L} {krylov} l).
Qed.
Lemma values_at_every_depth l : (l <= {L})%N ->
  {in_r}^T *m iter l {attend} ({tokens_at} {g0} 0) *m {at_query} = - ((iterate {A} {r} l)^T *m {E}).
Proof.
intro l_L. rewrite (every_depth l l_L) {parts}.
words ring [:: {sizes}] ({letters}, (iterate {A} {r} l), (iter l (mulmx {recurrence}) {g0})) {symmetric} ({rules}).
Qed.
End Every_depth.
"""
"""At every depth l <= L the sources hold powers of the recurrence, and the queries minus the iterate of TD."""


def executor(recurrence: str) -> Induction:
    """s becomes H s and c becomes c - E'B s, for H as it is written in letters."""
    state = {"s": "{recurrence} *m {s}", "c": "{c} - {E}^T *m {B} *m {s}"}
    return Induction(state, {"recurrence": recurrence}, new=("A", "r", "g0", "L", "krylov"), then=EXECUTOR)


POLICIES = Induction(
    {
        **{f"p_r{i}": f"{{H_r{i}}} *m {{p_r{i}}}" for i in (1, 2)},
        **{f"v_r{i}": f"{{v_r{i}}} + {{D}} *m {{p_r{i}}}" for i in (1, 2)},
    },
    new=("A1", "A2", "r1", "r2", "g1", "g2", "L", "krylov1", "krylov2"),
    then="""
Section Every_depth.
Variables ({A1} {A2} : 'M[ring]_{n}) ({r1} {r2} : 'M[ring]_({n}, 1)) ({g1} {g2} : 'M[ring]_({m}, 1)) ({L} : nat).
Hypothesis {krylov1} : forall j, (j < {L})%N -> iter j (mulmx {A1}) {r1} = {D} *m iter j (mulmx {H_r1}) {g1}.
Hypothesis {krylov2} : forall j, (j < {L})%N -> iter j (mulmx {A2}) {r2} = {D} *m iter j (mulmx {H_r2}) {g2}.
Lemma every_depth l : (l <= {L})%N ->
  iter l {attend} ({tokens_at} {g1} {g2} 0 0) =
  {tokens_at} (iter l (mulmx {H_r1}) {g1}) (iter l (mulmx {H_r2}) {g2}) (iterate {A1} {r1} l) (iterate {A2} {r2} l).
Proof.
exact (@every_depth_of_two _ _ _ {D} _ _ _ _ _ _ _ _ _ _ {attend} {tokens_at} {step} {L} {krylov1} {krylov2} l).
Qed.
End Every_depth.
""",
)
"""Two policies side by side: both hold powers, and the iterates of TD, at every depth l <= L."""

CORRECTED = """
Lemma every_depth l w0 : iter l {attend} ({tokens_at} w0) = {tokens_at} (iter l {algorithm} w0).
Proof. exact (Iterates.iterated {step} l w0). Qed.
Lemma values_at_every_depth l :
  {reading}^T *m iter l {attend} ({tokens_at} 0) *m {at_query} = - ((iter l {algorithm} 0)^T *m {E}).
Proof.
rewrite every_depth {parts}. words ring [:: {sizes}] ({letters}, (iter l {algorithm} 0)) {symmetric} ({rules}).
Qed.
Lemma nothing_moves w0 : {matrix} *m w0 = {target} -> {attend} ({tokens_at} w0) = {tokens_at} w0.
Proof. intro fixed. rewrite {step}. exact (congr1 {tokens_at} (still {C} fixed)). Qed.
Lemma error_at_every_depth l w0 w1 : {matrix} *m w1 = {target} ->
  iter l {attend} ({tokens_at} w0) = {tokens_at} (w1 + iter l (mulmx (1%:M - {C} *m {matrix})) (w0 - w1)).
Proof. intro fixed. rewrite every_depth. exact (congr1 {tokens_at} (corrected_after {C} l w0 fixed)). Qed.
"""
"""Iterates at every depth; nothing moves where M w = b, for every C; errors shrink by I - C M."""


def corrected(matrix: str, target: str, reading: str = "{in_r}") -> Induction:
    """w becomes w + C (b - M w)."""
    terms = {"matrix": matrix, "target": target, "reading": reading, "algorithm": "corrected {C} {matrix} {target}"}
    return Induction({"w": "{algorithm} {w}"}, terms, then=CORRECTED, unfolded=("corrected",))


FAMILY = Induction(
    {"u": "{u} + {C}^T *m {u} + {A} *m {W} *m {u}", "c": "{c} + {E}^T *m {C}^T *m {u}"},
    new=("aI", "r", "C_of_family", "W_of_family", "symmetric_aI", "commutes", "holding"),
    then="""
Section Family.
Variables ({aI} : 'M[ring]_{n}) ({r} : 'M[ring]_({n}, 1)).
Hypothesis {C_of_family} : {C} = - {aI}.
Hypothesis {W_of_family} : {W} = {aI}.
Hypothesis {symmetric_aI} : {aI}^T = {aI}.
Hypothesis {commutes} : {A} *m {aI} = {aI} *m {A}.
Definition {holding} v := {tokens_at} ({r} - (1%:M - {A}) *m v) (- ({E}^T *m v)).
Lemma start : {holding} 0 = {tokens_at} {r} 0.
Proof. unfold {holding}. congr ({tokens_at} _ _); words ring [:: {sizes}] ({letters}, {r}) {symmetric} ({rules}). Qed.
Lemma family_step v : {attend} ({holding} v) = {holding} (corrected {aI} (1%:M - {A}) {r} v).
Proof.
unfold {holding}, corrected. rewrite {step}.
congr ({tokens_at} _ _); words ring [:: {sizes}] ({letters}, {aI}, {r}, v)
  (tt, {symmetric_aI}) ({rules}, {C_of_family}, {W_of_family}, {commutes}).
Qed.
Lemma every_depth l v : iter l {attend} ({holding} v) = {holding} (iter l (corrected {aI} (1%:M - {A}) {r}) v).
Proof. exact (Iterates.iterated family_step l v). Qed.
Lemma nothing_moves v : (1%:M - {A}) *m v = {r} -> {attend} ({holding} v) = {holding} v.
Proof. intro fixed. rewrite family_step. exact (congr1 {holding} (still {aI} fixed)). Qed.
Lemma error_at_every_depth l v0 v : (1%:M - {A}) *m v = {r} ->
  iter l {attend} ({holding} v0) = {holding} (v + iter l (mulmx (1%:M - {aI} *m (1%:M - {A}))) (v0 - v)).
Proof. intro fixed. rewrite every_depth. exact (congr1 {holding} (corrected_after {aI} l v0 fixed)). Qed.
End Family.
""",
)
"""Weights (-a I, a I), or any matrix that commutes with A for a I: the fixed point of TD, whatever a is."""

READ = {"query.r": [["-1", [["S_b", 1], ["B", 1], ["X", 0]]]]}
VALUES = """
Lemma query_values T : {in_r}^T *m {attend} ({tokens_at} T) *m {at_query} = - (({B} *m T)^T *m {X}).
Proof. rewrite {step} {after_parts}. words ring [:: {sizes}] ({letters}, T) {symmetric} ({rules}). Qed.
"""
"""What the queries read off the sources, which hold T."""


def _bank(index: int, *values: Any) -> dict[str, Any]:
    """Blocks of the sources whose registers hold these values."""
    return {f"source.{f}": words for f, words in zip(BANKS[index % 2], values, strict=True) if words}


def doubling(depth: int) -> dict[str, Induction]:
    """Extraction fills a bank; a digit makes (E E, S + E S, T or S + E T) of it in the other, the last one T alone."""
    filled = _bank(0, [["1", [["P", 0], ["H", 0]]]], [["1", [["g0", 1]]]], None)
    out = {"extraction": Induction({"H": "{H}", "g0": "{g0}"}, into=filled)}
    E, S, T = [["1", [["P", 0], ["H^a", 0]]]], [["1", [["S_a", 1]]]], [["1", [["S_b", 1]]]]
    digits = bin(depth)[:1:-1]
    for i, digit in enumerate(digits, start=1):
        state = {"H^a": "{H^a} *m {H^a}", "S_a": "{S_a} + {H^a} *m {S_a}"}
        state["S_b"] = "{S_a} + {H^a} *m {S_b}" if digit == "1" else "{S_b}"
        bank = _bank(i, E, S, T) if i < len(digits) else _bank(i, None, None, T)
        out[f"digit {i}"] = Induction(state, into=bank)
    out["read"] = Induction({"S_b": "{S_b}"}, into=_bank(len(digits), None, None, T) | READ, then=VALUES)
    return out


CHUNK = """
Lemma chunk_state :
  {S} *m {gate} - {S} *m {weights} *m {keys}^T + {values} *m {keys}^T =
  {state}.
Proof. unfold {gate}, {weights}, {keys}, {values}. rewrite ?tr_row_mx ?mul_mx_row ?mul_row_col. by_words. Qed.
"""
"""What a chunk does to every state."""

WEIGHTS = """
Lemma log_weights_grow : {U}^T *m {next} = {U'S'}.
Proof. unfold {next}. by_words. Qed.
"""
"""What a round adds to the log weights."""

BY_PENALTY = tuple(variant for variant in VARIANTS if variant != "softmax_only")
"""Realisations with a penalty for each label; that by softmax alone has none for losses."""

UPDATE = """
Lemma value_moves : {f}^T *m {next} *m {a} = {f'W+ a}.
Proof. unfold {next}. by_words. Qed.
Lemma columns_stay : {next} *m {b} = {W} *m {b}.
Proof. unfold {next}. by_words. Qed.
Lemma rows_stay : {h}^T *m {next} = {h}^T *m {W}.
Proof. unfold {next}. by_words. Qed.
"""
"""What a round of Q-learning, or one of its relatives, does to the rows of values."""

CONTROL = {
    "online.q-learning": ("four_layer", "three_layer", "softmax"),
    "online.sarsa": ("four_layer",),
    "online.expected-sarsa": ("boltzmann",),
    "online.double-q": ("four_layer",),
    "online.linear-q": ("four_layer", "three_layer"),
}
"""Realisations whose rounds are recorded."""

PASS = Induction(
    {"z": "{z} - {B} *m {W}^T *m {z}"},
    then="""
Lemma next_token z0 : {in_x}^T *m {tokens_at} z0 *m {at_next} = z0.
Proof. rewrite {parts}. words ring [:: {sizes}] ({letters}, z0) {symmetric} ({rules}). Qed.
""",
)
"""A pass of a round takes what the tokens done explain away from the next one."""

FIRST = Induction(
    {"r": "{r}"},
    into={"state.r": [["1", [["r", 1]]]], "here.x": [["1", [["r", 0]]]]},
    then="""
Lemma first_token r0 : {in_x}^T *m {attend} ({tokens_at} r0) *m {at_here} = r0.
Proof. rewrite {step} {after_parts}. words ring [:: {sizes}] ({letters}, r0) {symmetric} ({rules}). Qed.
""",
)
"""The first token is r."""

GOES_ON: dict[tuple[str, str, str], Induction | str] = {
    ("td.executor", "step", "step"): executor("{H}"),
    ("td.hessenberg", "values", "step"): executor("{H}"),
    ("td.memory-optimal", "values", "step"): executor("{shift} + {a} *m {u}^T"),
    ("td.policy-class", "values", "step of the program"): POLICIES,
    ("td.full-context", "td", "step"): corrected("{X} *m ({X} - {Y})^T", "{X} *m {R}^T"),
    ("td.full-context", "td-lambda", "step"): corrected(
        "{X} *m {Lambda}^T *m ({X} - {Y})^T", "{X} *m {Lambda}^T *m {R}^T"
    ),
    ("td.full-context", "residual-gradient", "step"): corrected("({X} - {Y}) *m ({X} - {Y})^T", "({X} - {Y}) *m {R}^T"),
    ("td.full-context", "average-reward", "step"): corrected("{X} *m ({X} - {Y})^T", "{X} *m {T}^T *m {R}^T", "{in_h}"),
    ("td.learnability", "layer", "state tokens"): FAMILY,
    **{("recurrent.delta-rule", "chunks", part): CHUNK for part in ("one token", "a token more", "two chunks")},
    **{("online.weighted-majority", "token-table", variant): WEIGHTS for variant in VARIANTS},
    **{("online.hedge", "token-table", variant): WEIGHTS for variant in BY_PENALTY},
    **{(theorem, "token-table", x): UPDATE for theorem, realisations in CONTROL.items() for x in realisations},
    ("td.krylov", "rounds", "b_1 = r"): FIRST,
    **{("td.krylov", "rounds", f"round {i}, pass {j}"): PASS for i in (1, 2, 3) for j in (1, 2)},
    **{
        ("td.doubling", f"layers-{depth}", part): induction
        for depth in DEPTHS
        for part, induction in doubling(depth).items()
    },
}
"""(theorem, claim, part of the record) -> how it goes on, or what is said of the matrices that it records."""
