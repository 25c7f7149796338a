"""td.identifiability: which losses single out (C, W) = (-I, I) (Prop 4.6).

With v^_l = -c_l the values of the executor with free weights (td.learnability), S_l = sum_{j<l} F^j r, X = C' + I and
V = W - I:

    v^_l = -C' S_l = S_l - X S_l,   S_{l+1} = r + F S_l,   F = A + X + A V .

* Trajectory: v^_1 - v_1 = -X r, and once X = 0, v^_2 - v_2 = A V r. Over a sample of tasks with E[r r'] > 0 and
  E[(r r') (x) (A'A)] > 0 both vanish for X = V = 0 only: (-I, I) is the only exact executor, the Jacobian there
  is injective. The second condition implies the first: (x (x) y)' E[..] (x (x) y) = E (x'r)^2 |A y|^2.
* L = 1 says nothing about W.
* End point: the family (-aI, aI) has F = I - a (I - A), so v^_L = (I - F^L) (I - A)^{-1} r. Its limit does not depend
  on a, whence the null direction (-I, I) of the converged loss; at depth L the derivative at a = 1 is L A^{L-1} r.
"""

from __future__ import annotations

from ..arithmetic import Exact
from ..construction import Construction
from . import learnability

THEOREM = "td.identifiability"
SOURCE = "Prop 4.6 (theory A7)"
ASSUMPTIONS = learnability.ASSUMPTIONS


def family(n: int, depth: int, a: Exact) -> Construction:
    """The executor with weights (-aI, aI), which has the same fixed point for every a.

    Raises:
        BadInput: a size that is not a positive int.
    """
    return learnability.construction(n, depth, C=learnability.multiple("C", -a), W=learnability.multiple("W", a))
