"""td.statistics: stage 1 of the encoder, N raw transitions to n state tokens (Thm 4.3, first stage).

Derivation. Raw token t holds e_{S_t}, e_{S'_t}, R_t, 1; state token i holds e_i. With the score e_{S_t}.e_i, which is
1 where S_t = i and else 0, three heads along raw => state accumulate

    z_i = sum_t [S_t = i] e_{S'_t} = N_i. ,   q_i = sum_t [S_t = i] R_t ,   c_i = sum_t [S_t = i] = N_i .

The declared primitive recip_0 turns c_i into 1 / N_i, and two heads along state -> state (each token to itself) form
y_i = z_i (c_i g) = g N_i. / N_i, row i of A, and r_i = q_i c_i. Raw tokens are released. A terminal successor enters as
the zero vector, so it drops out of its row while its visit and reward count.
"""

from __future__ import annotations

from ..arithmetic import Arithmetic, Array
from ..construction import Construction, Steps, last
from ..errors import BadInput
from ..layers import Head, Layer, LinearAttention, Release, Tokenwise, full, same
from ..layout import Size
from ..program import Program
from ..task import SUB_STOCHASTIC, Task
from ..tokens import Span, Tokens
from .tokens import encode_log, wide_layout

THEOREM = "td.statistics"
ASSUMPTIONS = (
    "declared primitive recip_0(x) = 1/x, and 0 at x = 0",
    "routes depend on token kinds and public indices only",
    "the discount g is public",
)


def statistics_layers() -> tuple[Layer, ...]:
    """Stage 1: two attention layers, five heads, one primitive."""
    gather, own = (full("raw", "state"),), (same("state", "state"),)
    return (
        LinearAttention(
            (
                Head("y", "x", "x", "z", gather),
                Head("r", "x", "x", "q", gather),
                Head("one", "x", "x", "c", gather),
            ),
            "count",
        ),
        Tokenwise("recip_0", Span("state"), "c", "invert visits"),
        LinearAttention((Head("z", "c", "gam", "y", own), Head("q", "c", "one", "r", own)), "normalise"),
        Release("raw", label="release raw"),
    )


def statistics_program(n: Size) -> Program:
    """Raw tokens to state tokens, for n states (an int or a symbol)."""
    return Program("statistics (N -> n)", wide_layout(n), ("raw", "state"), statistics_layers())


def read_statistics(tokens: Tokens, arithmetic: Arithmetic) -> Array:
    """[A'; r'], shape (n + 1, n): column i is row i of A, then r_i."""
    n = tokens.total("state")
    return arithmetic.stack([[tokens.read("state", "y", n, arithmetic)], [tokens.read("state", "r", 1, arithmetic)]])


def counted_statistics(task: Task, arithmetic: Arithmetic) -> Array:
    """[A'; r'] by counting, without attention; each entry rounded once from its exact value."""
    rows = [*task.A.transpose().tolist(), *task.r.transpose().tolist()]
    return arithmetic.matrix(rows)


def construction(n: int) -> Construction:
    """Stage 1 for n states.

    Raises:
        BadInput: n is not a positive int.
    """
    check_states(THEOREM, n)

    def encode(task: Task, arithmetic: Arithmetic) -> Tokens:
        return encode_log(task, arithmetic, n)

    def decode(steps: Steps, arithmetic: Arithmetic) -> Array:
        return read_statistics(last(steps), arithmetic)

    return Construction(
        theorem=THEOREM,
        sizes={"n": n},
        program=statistics_program(n),
        encode=encode,
        decode=decode,
        reference=counted_statistics,
        task_class=SUB_STOCHASTIC,
        assumptions=ASSUMPTIONS,
        answer=(("A'", n), ("r'", 1)),
        source="Thm 4.3, encoder stage 1 (theory A1); the source's token is 13n + 11 wide",
    )


def check_states(theorem: str, n: object) -> None:
    """Raise `BadInput` unless n is a positive int."""
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise BadInput(f"{theorem}: expected a positive number of states n, found {n!r}")
