"""The command line: `hydra-dse`.

Exit codes: 0 done (an infeasible design is a result), 2 the user's input is wrong (one message, nothing changed),
3 a search found nothing feasible, 130 interrupted (what was done is kept).
"""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line and turn every error a user can cause into one message and an exit code."""
    from hydra_dse.cli.app import app
    from hydra_dse.errors import HydraError, InputError, NothingFeasible

    try:
        app.main(prog_name="hydra-dse", standalone_mode=True)
    except InputError as error:
        _fail(str(error), 2)
    except NothingFeasible as error:
        _fail(str(error), 3)
    except HydraError as error:
        _fail(str(error), 2)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)


def _fail(message: str, code: int) -> None:
    sys.stderr.write("".join(f"error: {line}\n" for line in message.splitlines()))
    sys.exit(code)
