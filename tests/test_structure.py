"""The house: imports run one way, torch stays out of proofs, files stay small, the top level is the agreed one."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = {
    "constructions": set(),
    "proofs_check": {"constructions"},
    "numerics": {"constructions"},
    "verify": {"constructions", "proofs_check", "numerics"},
}


def imports(path: Path) -> set[str]:
    """First components of absolute imports, wherever they stand in a file."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            found.add(node.module.split(".")[0])
    return found


@pytest.mark.parametrize("room", ROOMS)
def test_imports_run_one_way(room):
    files = list((ROOT / room).rglob("*.py"))
    assert files
    for path in files:
        against = imports(path) & set(ROOMS) - ROOMS[room] - {room}
        assert not against, f"{path.relative_to(ROOT)} imports {against}"


@pytest.mark.parametrize("room", ["constructions", "proofs_check"])
def test_exact_rooms_need_no_torch(room):
    for path in (ROOT / room).rglob("*.py"):
        assert not imports(path) & {"torch", "scipy", "mpmath"}, path


def test_certify_runs_without_torch():
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from verify.command_line import main\n"
        "main(['certify', 'td.executor', '--quick', '--json'])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_same_module_names_in_every_room():
    wings = {
        room: {p.stem for p in (ROOT / room / "temporal_difference").glob("*.py")} for room in ROOMS if room != "verify"
    }
    for theorem in ("statistics", "krylov", "executor"):
        assert all(theorem in wing for wing in wings.values())


def test_files_are_small():
    """But for the re-checker, which is one file so that it can be read and run alone (its own test limits it)."""
    long = {
        str(path.relative_to(ROOT)): lines
        for room in ROOMS
        for path in (ROOT / room).rglob("*.py")
        if path.name != "recheck.py" and (lines := len(path.read_text().splitlines())) > 400
    }
    assert not long
