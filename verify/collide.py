"""`verify collide`: two worlds that the keys and gates of a user cannot tell apart, or a proof that there are none."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from flint import fmpq
from rich.console import Console

from constructions.errors import BadInput
from constructions.recurrent.collision import Encoder, find_collision
from proofs_check.claim import Verdict, rational
from proofs_check.recurrent.memory import prove_collisions

NEEDED = {"keys": 2, "rates": 1, "gates": 1}
OPTIONAL = {"inputs": 2, "blocks": 1}


def read_encoder(path: Path) -> Encoder:
    """Arrays keys (T, d_k), rates b and gates a (T,); optional: inputs x (T, d) and blocks j (T,) from 0.

    Floats stand for their binary values. Without inputs every token shows something of its own: then the question is
    whether T free values can be told from the state. Inputs without blocks are of one block.

    Raises:
        BadInput: not an npz file, an array that is missing, of another shape, not numeric or not finite.
    """
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except (OSError, ValueError, AttributeError, zipfile.BadZipFile):
        raise BadInput(f"{path}: expected an npz file of numeric arrays, found none") from None
    unknown = sorted(set(arrays) - set(NEEDED) - set(OPTIONAL))
    missing = [name for name in NEEDED if name not in arrays]
    if unknown or missing:
        found = ", ".join(sorted(arrays)) or "none"
        raise BadInput(f"{path}: expected arrays keys, rates, gates and perhaps inputs, blocks, found {found}")
    T = len(arrays["keys"]) if arrays["keys"].ndim else 0
    for name, array in arrays.items():
        dimensions = {**NEEDED, **OPTIONAL}[name]
        if array.ndim != dimensions or len(array) != T or array.size == 0:
            shape = "(T, width)" if dimensions == 2 else "(T,)"
            raise BadInput(f"{path}, {name}: expected shape {shape} with T = {T} > 0 tokens, found {array.shape}")
        if array.dtype.kind not in ("iu" if name == "blocks" else "fiu"):
            kind = "integers" if name == "blocks" else "numbers"
            raise BadInput(f"{path}, {name}: expected {kind}, found dtype {array.dtype}")
        if not np.isfinite(array).all():
            raise BadInput(f"{path}, {name}: expected finite numbers, found one that is not")
    if "inputs" in arrays:
        inputs = _exact(arrays["inputs"])
        blocks = arrays["blocks"].tolist() if "blocks" in arrays else [0] * T
    elif "blocks" in arrays:
        raise BadInput(f"{path}: expected inputs beside blocks, found none")
    else:
        inputs, blocks = [[fmpq(1)]] * T, list(range(T))
    (rates,), (gates,) = _exact(arrays["rates"][None]), _exact(arrays["gates"][None])
    return Encoder(_exact(arrays["keys"]), rates, gates, inputs, blocks, path.name)


def _exact(array: np.ndarray) -> list[list[fmpq]]:
    """Binary values as rationals; float64 holds every narrower format."""
    wide = array.astype(np.float64) if array.dtype.kind == "f" else array
    return [[fmpq(*x.as_integer_ratio()) for x in row] for row in wide.tolist()]


def collide(encoder: Encoder) -> dict[str, Any]:
    """Rank, and either the two worlds, read by the layer once more, or the rank that excludes them; ready for JSON."""
    N, rank = encoder.K * encoder.d, encoder.rank
    document: dict[str, Any] = {
        "file": encoder.name,
        "tokens": len(encoder.keys),
        "blocks": encoder.K,
        "input_width": encoder.d,
        "key_width": encoder.d_k,
        "reals_of_a_row": N,
        "rank": rank,
        "collision": None,
    }
    found = find_collision(encoder)
    if found is None:
        proof = f"the state is A Phi with Phi of rank {rank} = K d, so it determines every row of A"
        return {**document, "verdict": "no two worlds collide", "proof": proof}
    finding = prove_collisions([found])
    if finding.verdict is not Verdict.PROVED:
        raise AssertionError(f"a collision that the layer does not confirm: {finding.evidence}")
    start = found.block * encoder.d
    worlds = [[str(x) for x in world.entries()] for world in (found.first, found.second)]
    document["collision"] = {
        "worlds": worlds,
        "state": [rational(x) for x in encoder.state(found.second).entries()],
        "block": found.block,
        "query": [rational(x) for x in found.query],
        "answers": [str(found.answer(world)) for world in (found.first, found.second)],
        "row_of_block": [world[start : start + encoder.d] for world in worlds],
    }
    proof = "the layer reads both worlds into the same state, in Q; their answers differ at the block and query named"
    return {**document, "verdict": "two worlds collide", "proof": proof}


def render(document: dict[str, Any], console: Console) -> None:
    """The verdict, and the worlds, as text."""
    sizes = f"{document['tokens']} tokens, {document['blocks']} blocks, inputs of width {document['input_width']}"
    console.print(f"{document['file']}: {sizes}, keys of width {document['key_width']}", highlight=False)
    rank, N = document["rank"], document["reals_of_a_row"]
    console.print(f"[bold]{document['verdict']}[/]: rank {rank} of {N} reals a row", highlight=False)
    found = document["collision"]
    if found is not None:
        where = f"block {found['block']}, query {' '.join(found['query'])}"
        console.print("first world: every A is 0; second world: a row of [A_1 .. A_K] is", highlight=False)
        console.print("  " + " ".join(map(rational, found["worlds"][1])), highlight=False)
        answers = " and ".join(map(rational, found["answers"]))
        console.print(f"state in both: {' '.join(found['state'])}; answers at {where}: {answers}", highlight=False)
    console.print(f"{document['proof']}.", highlight=False)
