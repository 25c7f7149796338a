"""One function over many files: in this process, in several, or on a Dask cluster, through joblib.

The function returns a value with a commutative and associative `merge`, so the result does not depend on the number of
jobs or on which file is done first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from constructions.errors import BadInput
from numerics.log_files import LogFile

BACKENDS = ("loky", "threading", "dask")
_CONNECTING_SECONDS = 10
_MERGED_AT_ONCE = 16


class Mergeable(Protocol):
    """What some rows amount to; merged it is what all of them amount to."""

    def merge(self, *others: Any) -> Any: ...


M = TypeVar("M", bound=Mergeable)


@dataclass(frozen=True)
class Jobs:
    """How many files are read at once, and where.

    Attributes:
        count: number of jobs, 0 for one a processor; 1 reads one file after another, each with every processor.
        backend: "loky" (processes of this machine), "threading", or "dask".
        scheduler: address of a Dask scheduler, whose workers see the files under the same paths.

    Raises:
        BadInput: a negative count, an unknown backend, a scheduler without Dask or the other way round.
    """

    count: int = 1
    backend: str = "loky"
    scheduler: str | None = None

    def __post_init__(self) -> None:
        if self.count < 0:
            raise BadInput(f"jobs: expected a number of them, or 0 for one a processor, found {self.count}")
        if self.backend not in BACKENDS:
            raise BadInput(f"backend: expected one of {', '.join(BACKENDS)}, found {self.backend!r}")
        if (self.backend == "dask") != (self.scheduler is not None):
            found = "a scheduler and" if self.scheduler is not None else "no scheduler but"
            raise BadInput(f"scheduler: expected one exactly if the backend is dask, found {found} {self.backend!r}")


def merge_files(
    function: Callable[[LogFile], M],
    identity: M,
    files: Sequence[LogFile],
    jobs: Jobs,
    progress: Callable[[str], None],
) -> M:
    """`function` of every file, merged.

    Raises:
        BadInput: what the function raises, for the first such file that is reached; a scheduler that does not answer.
    """
    merged, waiting = identity, []
    for done, result in enumerate(_results(function, files, jobs), start=1):
        progress(f"read {done} of {len(files)} files")
        waiting.append(result)
        if len(waiting) == _MERGED_AT_ONCE:
            merged, waiting = merged.merge(*waiting), []
    return merged.merge(*waiting)


def _results(function: Callable[[LogFile], M], files: Sequence[LogFile], jobs: Jobs) -> Iterator[M]:
    if jobs.backend != "dask" and (jobs.count == 1 or len(files) == 1):
        yield from map(function, files)
        return
    from joblib import Parallel, delayed

    with _backend(jobs):
        # Dask hands results over only when all are there.
        lazily = {} if jobs.backend == "dask" else {"return_as": "generator_unordered"}
        yield from Parallel(n_jobs=jobs.count or -1, **lazily)(delayed(function)(file) for file in files)


@contextmanager
def _backend(jobs: Jobs) -> Iterator[None]:
    from joblib import parallel_config

    with ExitStack() as stack:
        if jobs.backend == "dask":
            stack.enter_context(_client(str(jobs.scheduler)))
        stack.enter_context(parallel_config(backend=jobs.backend))
        yield


def _client(scheduler: str) -> Any:
    try:
        from distributed import Client
    except ImportError:
        raise BadInput(
            'backend: expected the package distributed for "dask" (pip install "contextproof[cluster]"), '
            "found none installed"
        ) from None
    try:
        return Client(scheduler, timeout=_CONNECTING_SECONDS, set_as_default=True)
    except (OSError, ValueError) as error:
        said = " ".join(str(error).split()) or type(error).__name__
        raise BadInput(f"scheduler: expected a Dask scheduler at {scheduler}, found none: {said[:200]}") from None
