"""Contexts of m < k vectors that are not exact: Krylov projection and Krylov truncation (theory A6).

* Projection: m orthonormal Arnoldi vectors W, H = W'AW, g0 = W'r; state c_{l+1} = g0 + H c_l, answer W c_l.
* Truncation: v_l exactly for l <= m, and v_m for every later depth.

Both are exact for depths up to m, and both answer 0 at m = 0. Everything here is float64: errors are observed, not
enclosed, and k is an argument because a Krylov dimension is never decided in floats.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, issparse

from constructions.errors import BadInput

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Compression:
    """Worst errors over all depths l <= L and all states, for every context size m = 0..k.

    Attributes:
        projection: absolute error of the Krylov projection, shape (k+1,).
        truncation: absolute error of the Krylov truncation, shape (k+1,).
        scale: max |v_l(i)| over depths and states; 0 if the reward is zero.
        depth: L.
    """

    projection: Array
    truncation: Array
    scale: float
    depth: int

    def relative(self, errors: Array) -> Array:
        """Errors divided by `scale`; they are 0 where the scale is."""
        return errors / self.scale if self.scale else np.zeros_like(errors)


def arnoldi(A: Array | csr_matrix, r: Array, k: int) -> tuple[Array, Array, float]:
    """At most k orthonormal Krylov vectors by Arnoldi's process with two passes of Gram-Schmidt.

    Args:
        A: shape (n, n), dense or sparse.
        r: shape (n,).
        k: number of vectors wanted; there are fewer only if a residual is zero outright.

    Returns:
        W, shape (n, j), columns orthonormal; H = W'AW as accumulated, upper Hessenberg, shape (j, j); and |r|_2.
    """
    length = float(np.linalg.norm(r))
    W = np.zeros((r.size, k), order="F")
    H = np.zeros((k, k))
    if k == 0 or length == 0:
        return W[:, :0], H[:0, :0], length
    W[:, 0] = r / length
    for j in range(k):
        vector = A @ W[:, j]
        known = W[:, : j + 1]
        for _ in range(2):  # the second pass removes what rounding left of the first
            part = known.T @ vector
            vector = vector - known @ part
            H[: j + 1, j] += part
        residual = float(np.linalg.norm(vector))
        if j + 1 == k:
            break
        if residual == 0:
            return W[:, : j + 1], H[: j + 1, : j + 1], length
        H[j + 1, j] = residual
        W[:, j + 1] = vector / residual
    return W, H, length


def iterates(A: Array | csr_matrix, r: Array, depth: int) -> Array:
    """v_0, .., v_L as rows, shape (L+1, n)."""
    values = np.zeros((depth + 1, r.size))
    for l in range(depth):
        values[l + 1] = r + A @ values[l]
    return values


def truncation_errors(values: Array, k: int) -> Array:
    """max over l >= m and states of |v_l - v_m|, for m = 0..k, shape (k+1,); O(L n): running extremes from the end."""
    errors = np.zeros(k + 1)
    above, below = values[-1].copy(), values[-1].copy()
    for m in range(values.shape[0] - 1, -1, -1):
        np.maximum(above, values[m], out=above)
        np.minimum(below, values[m], out=below)
        if m <= k:
            errors[m] = max((above - values[m]).max(), (values[m] - below).max())
    return errors


def projection_errors(A: Array | csr_matrix, r: Array, values: Array, k: int) -> Array:
    """max over l and states of |W c_l - v_l| for the first m Arnoldi vectors, m = 0..k, shape (k+1,).

    All sizes run at once. H is upper Hessenberg, so H_m c is the leading part of H c for a vector c of m entries: with
    the state for size m in column m-1 of C, one step is C+ = upper triangle of (H C), plus |r| in the first row.
    """
    W, H, length = arnoldi(A, r, k)
    size = H.shape[0]
    errors = np.zeros(k + 1)
    errors[0] = np.abs(values).max()
    if size == 0:
        errors[:] = errors[0]
        return errors
    C = np.zeros((size, size))
    worst = np.zeros(size)
    upper = np.triu(np.ones((size, size), dtype=np.bool_))
    for exact in values[1:]:
        C = np.where(upper, H @ C, 0.0)
        C[0] += length
        error = W @ C
        error -= exact[:, None]
        np.abs(error, out=error)
        np.maximum(worst, error.max(axis=0), out=worst)
    errors[1 : size + 1] = worst
    errors[size + 1 :] = worst[-1]
    return errors


def compress(A: Array | csr_matrix, r: Array, depth: int, k: int) -> Compression:
    """Errors of both compressions against the float64 iterates, for every m = 0..k.

    Args:
        A: shape (n, n), dense or scipy sparse, spectral radius below 1.
        r: shape (n,).
        depth: L >= 1.
        k: largest context size, at most min(n, L); the Krylov dimension, decided exactly elsewhere.

    Raises:
        BadInput: shapes, depth or k do not fit together.
    """
    r = np.asarray(r, dtype=np.float64).reshape(-1)
    A = csr_matrix(A, dtype=np.float64) if issparse(A) else np.asarray(A, dtype=np.float64)
    if A.shape != (r.size, r.size):
        raise BadInput(f"compression: expected A of shape {(r.size, r.size)} to go with r, found {A.shape}")
    if depth < 1:
        raise BadInput(f"compression: expected a depth of at least 1, found {depth}")
    if not 0 <= k <= min(r.size, depth):
        raise BadInput(f"compression: expected k between 0 and min(n, L) = {min(r.size, depth)}, found {k}")
    values = iterates(A, r, depth)
    return Compression(
        projection_errors(A, r, values, k), truncation_errors(values, k), float(np.abs(values).max()), depth
    )
