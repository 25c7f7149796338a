"""Retained registers of every way to keep a log for temporal-difference evaluation (theory A4, table of A9).

Retained memory is the number of distinct scalar positions that must stay after encoding (Def. 4.2): workspace, public
quantities and shared parameters are not counted. One register is one float32, four bytes; 1 KiB is 256 registers.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_matrix, csr_matrix

from constructions.errors import BadInput
from constructions.task import TaskStatistics

_BYTES = 4


@dataclass(frozen=True)
class Registers:
    """Register counts for n states, a context of k vectors, N transitions and `nnz` distinct (state, successor) pairs.

    Attributes:
        n: number of states.
        k: number of context tokens kept.
        transitions: N.
        nnz: stored entries of P; transitions into a terminal successor store none.
    """

    n: int
    k: int
    transitions: int
    nnz: int

    @property
    def context(self) -> int:
        """The compiled context Z_0 = [B; Y; g0'], (2n+1) x k (theory A2)."""
        return (2 * self.n + 1) * self.k

    @property
    def context_with_query(self) -> int:
        """The same with the column of one query, (2n+1) x (k+1)."""
        return (2 * self.n + 1) * (self.k + 1)

    @property
    def statistics(self) -> int:
        """The dense statistics: P, n x n, then r and the values, n each."""
        return self.n * self.n + 2 * self.n

    @property
    def raw(self) -> int:
        """The log itself: state, reward and successor of every transition."""
        return 3 * self.transitions

    @property
    def sparse_parts(self) -> dict[str, int]:
        """What sparse temporal-difference learning keeps: A as CSR, r, the values and the values being computed."""
        return {
            "data": self.nnz,
            "indices": self.nnz,
            "indptr": self.n + 1,
            "rewards": self.n,
            "values": self.n,
            "next values": self.n,
        }

    @property
    def sparse(self) -> int:
        """Sum of `sparse_parts`: 2 nnz + 4n + 1."""
        return sum(self.sparse_parts.values())


def kib(registers: int) -> float:
    """Registers as KiB of float32."""
    return registers * _BYTES / 1024


def sparse_counts(task: TaskStatistics) -> csr_matrix:
    """N_ij as int64 CSR of shape (n, n), sorted and without duplicates or stored zeros; never forms an n x n array."""
    i, j, times = task.pairs
    counts = coo_matrix((times, (i, j)), shape=(task.n, task.n)).tocsr()
    counts.sort_indices()
    return counts


def sparse_model(task: TaskStatistics) -> tuple[csr_matrix, NDArray[np.float64]]:
    """A = g P as float64 CSR, shape (n, n), and r as float64, shape (n,); each entry is its rational rounded once."""
    counts = sparse_counts(task)
    g = task.discount
    owners = np.repeat(np.arange(task.n), np.diff(counts.indptr))
    # One exact quotient per distinct (count, visits) pair; int / int rounds correctly in Python.
    pairs, inverse = np.unique(np.stack([counts.data, task.visits[owners]], axis=1), axis=0, return_inverse=True)
    quotients = [g.numerator * count / (g.denominator * visits) for count, visits in pairs.tolist()]
    data = np.array(quotients, dtype=np.float64)[inverse.reshape(-1)]
    transitions = csr_matrix((data, counts.indices, counts.indptr), shape=counts.shape)
    return transitions, mean_rewards(task)


def mean_rewards(task: TaskStatistics) -> NDArray[np.float64]:
    """r as float64, shape (n,), each entry rounded once.

    Raises:
        BadInput: a mean reward is beyond the range of float64.
    """
    try:
        return np.array([float(Fraction(s) / v) for s, v in zip(task.reward_sums, task.visits.tolist(), strict=True)])
    except OverflowError:
        raise BadInput(f"{task.name}: expected rewards within the range of float64, found a larger one") from None


def count_registers(task: TaskStatistics, k: int) -> Registers:
    """The register counts of a task whose context keeps k vectors; nnz is that of the CSR matrix actually built."""
    return Registers(task.n, k, task.transitions, int(sparse_counts(task).nnz))
