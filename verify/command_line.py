"""The command `verify`: list, show, certify, measure, run, mutate, recheck, export-proof, reproduce, audit, context,
collide.

Each takes `--json` (one document on standard output and nothing else) and `--seed`. Exit code 0: all proved and sound;
1: something refuted or violated; 2: bad input, said in one sentence; 3: something undecided.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from constructions.errors import BadInput

# Each module registers its commands when it is imported: this is their order in the help text.
# isort: off
from . import theorem_commands, audit_commands, soundness_commands, file_commands, working  # noqa: F401
from .application import app
# isort: on


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point: run a command and exit with its code; bad input is one sentence on standard error, code 2."""
    try:
        code = app(args=list(arguments) if arguments is not None else None, standalone_mode=False)
    except BadInput as error:
        code = _refuse(str(error))
    except BrokenPipeError:
        # The reader went away (as in `| head`): nothing more can be said, and a second failure at exit is avoided.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 141
    except KeyboardInterrupt:
        code = 130
    except Exception as error:
        # The command-line library's own errors (a missing option, an unknown command) know how to say themselves.
        if type(error).__name__ == "Abort":
            code = 130
        elif hasattr(error, "format_message"):
            code = _refuse(" ".join(error.format_message().split()))
        else:
            raise
    sys.exit(code if isinstance(code, int) else 0)


def _refuse(sentence: str) -> int:
    print(f"verify: {sentence}", file=sys.stderr)
    return working.BAD_INPUT


if __name__ == "__main__":
    main()
