"""The command line: `hydra-dse`.

Exit codes: 0 done (an infeasible design is a result), 2 the user's input is wrong (one message, nothing changed),
3 a search found nothing feasible, 130 interrupted (what was done is kept).
"""

from __future__ import annotations

import os
import sys

# One thread per process: our matrices are small, and parallel work is processes.  NumPy reads this when it is
# imported, so it is set first; worker processes inherit it.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

WRONG_INPUT, NOTHING_FEASIBLE, INTERRUPTED = 2, 3, 130


def main() -> None:
    """Run the command line and turn every error a user can cause into one message and an exit code."""
    try:
        code = _run()
        sys.stdout.flush()
    except KeyboardInterrupt:
        code = _fail("stopped", INTERRUPTED)
    except BrokenPipeError:  # the reader has what it wanted: `hydra-dse list | head -1`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    sys.exit(code)


def _run() -> int:
    import click

    from hydra_dse.cli.app import app
    from hydra_dse.errors import InputError, Interrupted, NothingFeasible, UnitError

    try:
        code = app.main(prog_name="hydra-dse", standalone_mode=False)
    except click.Abort:
        return _fail("stopped", INTERRUPTED)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except Interrupted as error:
        return _fail(str(error), INTERRUPTED)
    except NothingFeasible as error:
        return _fail(str(error), NOTHING_FEASIBLE)
    except (InputError, UnitError) as error:  # anything else is a fault of ours and keeps its traceback
        return _fail(str(error), WRONG_INPUT)
    return code if isinstance(code, int) else 0


def _fail(message: str, code: int) -> int:
    sys.stderr.write("".join(f"error: {line}\n" for line in message.splitlines()))
    return code
