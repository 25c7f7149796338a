"""td.dimension: contexts with a linear decoder, and what the best of them can do (lower half of Thm 4.3, theory A4).

An m-dimensional context is a decoder D of shape (n, m) and states s_l with v_l = D sum_{j<l} s_j. Whatever the states,
the outputs lie in range D; the nearest point of range D to v_l is the orthogonal projection, so a decoder serves a task
up to depth L exactly if v_l - D (D'D)^-1 D' v_l vanishes for every l <= L. Here such decoders are proposed and judged;
that m >= k_L = dim span{r, A r, .., A^{L-1} r} is necessary for all of them is the claim next door.
"""

from __future__ import annotations

from dataclasses import dataclass

from flint import fmpq_mat

from ..errors import BadInput
from ..exact import RATIONALS
from ..task import Task
from . import executor, krylov

THEOREM = "td.dimension"
ASSUMPTIONS = (
    "the output at depth l is D sum_{j<l} s_j with one decoder D for all depths; the query token is not counted",
    "the rank of a product is at most the number of columns of its first factor (cited)",
)


@dataclass(frozen=True, eq=False)
class Proposal:
    """A linear decoder proposed for one task: `decoder` has shape (n, m), independent columns.

    Raises:
        BadInput: another number of rows than states, no column, or dependent columns.
    """

    task: Task
    depth: int
    decoder: fmpq_mat

    def __post_init__(self) -> None:
        rows, columns = self.decoder.nrows(), self.decoder.ncols()
        if rows != self.task.n or columns < 1 or self.decoder.rank() < columns:
            raise BadInput(
                f"decoder for {self.task.name}: expected {self.task.n} rows and independent columns,"
                f" found {rows} rows and {columns} columns of rank {self.decoder.rank()}"
            )

    @property
    def dimension(self) -> int:
        """m."""
        return self.decoder.ncols()

    def residuals(self) -> fmpq_mat:
        """v_l minus its best approximation in range D, exact; rows are depths, shape (depth + 1, n)."""
        D, Dt = self.decoder, self.decoder.transpose()
        values = executor.td_values(self.task, self.depth, RATIONALS).transpose()
        return (values - D * (Dt * D).solve(Dt * values)).transpose()


def krylov_decoder(task: Task, depth: int, m: int) -> fmpq_mat | None:
    """b_1, .., b_m of the Krylov context, shape (n, m); None where it has fewer vectors, or m < 1."""
    context = krylov.exact_context(task, depth)
    if context is None or not 1 <= m <= context.ncols():
        return None
    return RATIONALS.columns(RATIONALS.rows(context, 0, task.n), 0, m)


def value_decoder(task: Task, depth: int, m: int) -> fmpq_mat | None:
    """m iterates spread over the depths, v_l at l = ceil(i L / m), i = 1..m; None where dependent, or m < 1."""
    if m < 1:
        return None
    values = executor.td_values(task, depth, RATIONALS)
    rows = [RATIONALS.rows(values, -(-i * depth // m), -(-i * depth // m) + 1) for i in range(1, m + 1)]
    D = RATIONALS.stack([[row] for row in rows]).transpose()
    return D if D.rank() == m else None
