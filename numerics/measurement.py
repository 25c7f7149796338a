"""One measurement: what was run, how far it was off, and a bound on that error which was obtained without looking."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from constructions.exact import Balls
from numerics.errors import ErrorFigures


@dataclass(frozen=True)
class Measurement:
    """A program in one arithmetic on one task, against exact values.

    Attributes:
        theorem: id, such as ``"td.executor"``.
        task: name of the task, with generator, sizes and seed.
        arithmetic: name of the arithmetic, with precision and device.
        sizes: public sizes by their letters in the theory.
        error: observed error figures, rounded up.
        reference: what the values were compared with.
        bound: rigorous bound on the absolute error, rounded up; infinite where none is known.
        method: how the bound was obtained.
        seconds: wall-clock time of the program itself.
        seed: of the task.
        flags: what a reader must know: variant run, disagreements, values that are not finite.
    """

    theorem: str
    task: str
    arithmetic: str
    sizes: Mapping[str, int]
    error: ErrorFigures
    reference: str
    bound: float
    method: str
    seconds: float
    seed: int
    flags: tuple[str, ...] = ()

    @property
    def sound(self) -> bool:
        """Whether the error observed lies within the bound, and every entry within its own enclosure if there is one.

        Both figures are rounded up, which is monotone: a violation beyond one unit in the last place is never hidden,
        and there is no tolerance.
        """
        return self.error.absolute <= self.bound and self.error.contained is not False

    def to_json(self) -> dict[str, Any]:
        """Plain values; what is not finite is written as text, which JSON needs."""
        return {
            "theorem": self.theorem,
            "task": self.task,
            "arithmetic": self.arithmetic,
            "sizes": dict(self.sizes),
            "error": {"absolute": _number(self.error.absolute), "relative": _number(self.error.relative)},
            "reference": self.reference,
            "bound": _number(self.bound),
            "sound": self.sound,
            "seconds": self.seconds,
            "flags": [*self.flags, f"bound: {self.method}"],
            "seed": self.seed,
        }


def _number(x: float) -> float | str:
    return x if math.isfinite(x) else str(x)


@contextmanager
def precision_of(arithmetic: Any) -> Iterator[None]:
    """Set the process-wide precision of balls for the block; nothing for other arithmetics."""
    if isinstance(arithmetic, Balls):
        with arithmetic.working():
            yield
    else:
        yield


def timed(arithmetic: Any, function: Callable[[], Any]) -> tuple[Any, float]:
    """The result of a call in the arithmetic's precision, and its wall-clock seconds, the device's work included."""
    with precision_of(arithmetic):
        start = time.perf_counter()
        result = function()
        device = getattr(arithmetic, "device", None)
        if getattr(device, "type", "cpu") == "cuda":
            import torch

            torch.cuda.synchronize(device)
        return result, time.perf_counter() - start
