"""Per claim: pieces of the texts of mutants (sign, selector, route, loop or round, primitive) that it must refute."""

from . import online_learning, recurrent, temporal_difference

REFUTED = {**temporal_difference.REFUTED, **online_learning.REFUTED, **recurrent.REFUTED}
