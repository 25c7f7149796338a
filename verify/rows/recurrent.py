"""Catalogue rows on recurrent nets: the gated delta rule, and re-scanning."""

from __future__ import annotations

from collections.abc import Callable

from constructions.recurrent import delta_rule, rescan
from constructions.recurrent.blocks import random_block_task
from constructions.recurrent.streams import random_stream
from proofs_check.instances import Instance
from proofs_check.recurrent import delta_rule as delta_rule_proofs
from proofs_check.recurrent import rescan as rescan_proofs

from ..row import Options, Row, Shown, measured_by


def delta_rule_instances(options: Options) -> list[Instance]:
    """Chunks of 1, of some, of all and of more tokens, and the recurrence; gates 0 and 1, rates 0, 1, 2."""
    shapes = [(7, 3, 2, 1), (7, 3, 2, 3), (9, 2, 3, 4), (5, 4, 1, 8), (6, 2, 2, None)]
    if not options.quick:
        shapes += [(40, 8, 8, 16), (64, 6, 4, 64)]
    out = []
    for T, d_k, d_v, chunk in shapes:
        built = delta_rule.construction(d_k, d_v, chunk)
        out.append(Instance(built, random_stream(T, d_k, d_v, options.seed)))
        out.append(Instance(built, random_stream(T, d_k, d_v, options.seed + 1, rates=[0, 1, 2], gates=[0, 1])))
    return out


def rescan_instances(options: Options, how: str, count: int) -> Callable[[], list[Instance]]:
    """Tasks of several sizes, a tenth of them in the quick profile, with one shot or two."""
    shapes = ((2, 2, 2), (3, 2, 2), (2, 3, 1), (3, 3, 2), (4, 2, 3), (5, 4, 2))[: 3 if options.quick else 6]

    def draw() -> list[Instance]:
        out = []
        for i in range(max(len(shapes), count // 10) if options.quick else count):
            K, d, d_v = shapes[i % len(shapes)]
            task = random_block_task(K, d, d_v, shots=1 + i % 2, seed=options.seed + i)
            out.append(Instance(rescan.construction(task, how), task))
        return out

    return draw


ROWS = [
    Row(
        theorem=delta_rule.THEOREM,
        title="The gated delta rule in chunks: what T tokens do to every state, in one triangular solve a chunk",
        source=delta_rule.SOURCE,
        docs=(
            "S+ = a S (I - b k k') + b v k' read as an affine map of S. A chunk keeps H, W, Z, G and gives"
            " S_C = S_0 G + (Z - S_0 W) H'; a token appends a row of forward substitution, and chunks merge"
            " associatively: proved for all sizes by words, with any matrix as gate, so that zero gates need no care."
            " The layer is proved in polynomials at four sizes and in Q on streams with gates 0 and 1, rates 0, 1, 2"
            " and tokens that do not fill a chunk; eight forms that look alike are refuted. The determinant, the bound"
            " on T, dissipation and interference say where b |k|^2 = 2 stands: isometry, not contraction. Floats come"
            " with an error bound from exact one-step residuals."
        ),
        show=lambda n, depth: Shown(delta_rule.construction(n, n, depth), {"token": depth, "state": n}),
        claims=lambda options: delta_rule_proofs.claims(lambda: delta_rule_instances(options), options.seed),
        measure=measured_by("recurrent.delta_rule"),
    ),
    Row(
        theorem=rescan.THEOREM,
        title="Re-scanning: a block read again is exact whatever was stored, and one pass must hold K times as much",
        source=rescan.SOURCE,
        docs=(
            "A state that must answer for K functions holds K d d_v reals; one that may read the block again, d d_v. So"
            " the theorem's ratio is K; larger ones, such as the source's 28, are what training made of it. Proved:"
            " overwriting, sweeps over keys that are not orthogonal, two keys erased exactly in finitely many sweeps,"
            " ranks of encoders with witnesses of collision for any keys and gates (`verify collide`), and the model"
            " itself, by sketch or by replay, in Q and in polynomials. Choosing the block is a controller, declared."
        ),
        show=lambda n, depth: Shown(
            rescan.construction(random_block_task(depth, n, n)),
            {"example": depth * n, "shot": 1, "judge": 1, "query": 3, "state": n},
        ),
        claims=lambda options: rescan_proofs.claims(
            rescan_instances(options, "sketch", 60), rescan_instances(options, "replay", 30), options.seed
        ),
        measure=measured_by("recurrent.rescan"),
    ),
]
"""In catalogue order."""
