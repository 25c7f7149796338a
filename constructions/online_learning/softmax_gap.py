"""How far softmax(beta) in place of hardmax may be off: the bound of a round and that of all rounds (theory B2)."""

from __future__ import annotations

from fractions import Fraction

from flint import arb, fmpq


def gap_bound(actions: int, beta: Fraction, entropy: Fraction = Fraction(1), pairs: Fraction = Fraction(1)) -> arb:
    """min(ln A, (A - 1)/e)/beta >= max - sum softmax(beta Q) Q, enclosed at the precision set; each part times its
    constant, so that smaller ones can be refuted."""
    by_entropy = _ball(entropy) * arb(actions).log()
    by_pairs = _ball(pairs) * (actions - 1) * arb(-1).exp()
    return by_entropy.min(by_pairs) / _ball(beta)


def accumulated_bound(actions: int, beta: Fraction, discount: Fraction) -> arb:
    """g/(1 - g) times the bound of a round: the table after any number of rounds is no further below."""
    return _ball(discount / (1 - discount)) * gap_bound(actions, beta)


def _ball(x: Fraction) -> arb:
    return arb(fmpq(x.numerator, x.denominator))
