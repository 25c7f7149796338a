"""What a result was made with: versions, machine kind, threads."""

from __future__ import annotations

import os
import platform
import sys
from importlib import metadata
from typing import Any

from . import __version__

LIBRARIES = ("sympy", "mpmath", "python-flint", "numpy", "torch", "scipy")


def environment(device: str | None = None) -> dict[str, Any]:
    """Versions, machine kind, thread count and device; nothing that names a person or a place."""
    document: dict[str, Any] = {"contextproof": __version__, "python": platform.python_version()}
    for library in LIBRARIES:
        try:
            document[library] = metadata.version(library)
        except metadata.PackageNotFoundError:
            document[library] = "not installed"
    document["machine"] = f"{platform.system()} {platform.machine()}"
    document["cpus"] = os.cpu_count() or 1
    torch = sys.modules.get("torch")
    if torch is not None:
        document["torch threads"] = torch.get_num_threads()
    if device is not None:
        document["device"] = device
    return document
