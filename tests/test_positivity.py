"""Inequalities by coefficients: proved, refuted with a point, or undecided; identities."""

from proofs_check.claim import Verdict
from proofs_check.positivity import prove_nonnegative, prove_zero, variables

X, Y = variables("x", "y")


def test_nonnegative():
    assert prove_nonnegative({"sum": X * X + 3 * X * Y + 1, "zero": 0 * X}).verdict is Verdict.PROVED
    found = prove_nonnegative({"sum": X + Y, "difference": X * Y + 1 - X})
    assert found.verdict is Verdict.REFUTED
    assert found.evidence["block"] == "difference"
    x, y = (int(t) for t in found.evidence["at"])
    assert x * y + 1 - x < 0
    # Never negative, but not by its coefficients.
    assert prove_nonnegative({"square": (X - Y) * (X - Y)}).verdict is Verdict.UNDECIDED


def test_zero():
    assert prove_zero({"square": (X + Y) ** 2 - X**2 - 2 * X * Y - Y**2}).verdict is Verdict.PROVED
    found = prove_zero({"same": X - X, "square": (X + Y) ** 2 - X**2 - Y**2})
    assert (found.verdict, found.evidence["block"]) == (Verdict.REFUTED, "square")
