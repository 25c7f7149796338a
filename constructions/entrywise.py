"""exp, log, relu, softmax and hardmax from scalars: what the arithmetics with matrices of exact numbers share.

An arithmetic says how one number is exponentiated, how its sign is decided; where it has no answer, `Unsupported` is
raised, and nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .arithmetic import Array
from .errors import Unsupported


class Entrywise:
    """Mixed into an arithmetic that has `name`, `scalar`, `_table`, `_from_table` and `_entrywise`."""

    name: str
    scalar: Callable[[Any], Any]

    def exp(self, a: Array) -> Array:
        return self._entrywise(a, self._exp)

    def log(self, a: Array) -> Array:
        return self._entrywise(a, self._log)

    def relu(self, a: Array) -> Array:
        return self._entrywise(a, self._relu)

    def softmax(self, scores: Array, seen: NDArray[np.bool_]) -> Array:
        return self._by_column(scores, seen, self._softmax)

    def hardmax(self, scores: Array, seen: NDArray[np.bool_]) -> Array:
        return self._by_column(scores, seen, self._hardmax)

    def _by_column(self, scores: Array, seen: NDArray[np.bool_], weigh: Callable[[list], list]) -> Array:
        table = self._table(scores)
        out = [[self.scalar(0)] * len(row) for row in table]
        for column in range(seen.shape[1]):
            rows = np.flatnonzero(seen[:, column]).tolist()
            weights = weigh([table[row][column] for row in rows]) if rows else []
            for row, weight in zip(rows, weights, strict=True):
                out[row][column] = weight
        return self._from_table(out, (seen.shape[0], seen.shape[1]))

    def _softmax(self, scores: Sequence[Any]) -> list[Any]:
        # Only differences matter: a common term, rational or not, leaves before exp is taken.
        top = self._anchor(scores)
        powers = [self._exp(x - top) for x in scores]
        return [x / sum(powers[1:], powers[0]) for x in powers]

    def _hardmax(self, scores: Sequence[Any]) -> list[Any]:
        best = [0]
        for i in range(1, len(scores)):
            sign = self._sign(scores[i] - scores[best[0]])
            best = [i] if sign > 0 else [*best, i] if sign == 0 else best
        share = self.scalar(Fraction(1, len(best)))
        return [share if i in best else self.scalar(0) for i in range(len(scores))]

    def _anchor(self, scores: Sequence[Any]) -> Any:
        """What is subtracted from the scores before exp."""
        return scores[0]

    def _relu(self, x: Any) -> Any:
        return x if self._sign(x) > 0 else self.scalar(0)

    def _sign(self, x: Any) -> int:
        raise Unsupported(f"{self.name}: no order")

    def _exp(self, x: Any) -> Any:
        raise Unsupported(f"{self.name}: no exponential")

    def _log(self, x: Any) -> Any:
        raise Unsupported(f"{self.name}: no logarithm")

    def _table(self, a: Array) -> list[list[Any]]:
        raise Unsupported(f"{self.name}: no entries")

    def _from_table(self, rows: list[list[Any]], shape: tuple[int, int]) -> Array:
        raise Unsupported(f"{self.name}: no entries")

    def _entrywise(self, a: Array, function: Callable[[Any], Any]) -> Array:
        raise Unsupported(f"{self.name}: no entries")
