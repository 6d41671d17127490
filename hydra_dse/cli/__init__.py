"""The command line: `hydra-dse`.

Exit codes: 0 done (an infeasible design is a result), 2 the user's input is wrong (one message, nothing changed),
3 a search found nothing feasible, 130 interrupted (what was done is kept).
"""

from __future__ import annotations

import errno
import gc
import io
import os
import sys

# One thread per process: our matrices are small, and parallel work is processes.  NumPy reads this when it is
# imported, so it is set first; worker processes inherit it.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
# Our sections have no use for plugins of pydantic, which would be looked for among all packages installed.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")

_SURROUNDINGS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.ENAMETOOLONG, errno.EBADF, errno.EIO)
"""What the machine around us refuses, and we cannot help: no fault of ours, so no traceback."""

_OBJECTS_BETWEEN_SEARCHES = 20_000
"""New objects after which Python looks for cycles.  Its own 700 let it look hundreds of times while modules are
imported, which make many objects and no garbage: a tenth of the time that a check takes."""

WRONG_INPUT, NOTHING_FEASIBLE, INTERRUPTED = 2, 3, 130


def main() -> None:
    """Run the command line and turn every error a user can cause into one message and an exit code."""
    gc.set_threshold(_OBJECTS_BETWEEN_SEARCHES)
    if isinstance(sys.stdout, io.TextIOWrapper):  # '–' and '²' in a terminal of ISO 8859-1 are '?', and no crash
        sys.stdout.reconfigure(errors="replace")
    try:
        code = _refused() or _run()
        if sys.stdout is not None:
            sys.stdout.flush()
    except KeyboardInterrupt:
        code = _fail("stopped", INTERRUPTED)
    except BrokenPipeError:  # the reader has what it wanted: `hydra-dse list | head -1`
        _drop_output()
        code = 0
    except OSError as error:
        if error.errno not in _SURROUNDINGS:
            raise
        if error.filename is None:  # what was printed found no room: `hydra-dse list > /dev/full`
            _drop_output()
        file = "standard output" if error.filename is None else os.fsdecode(error.filename)
        code = _fail(f"{file}: {error.strerror}", WRONG_INPUT)
    if code == INTERRUPTED:
        _forget_interrupt()
    sys.exit(code)


def _forget_interrupt() -> None:
    """Let Python end with our exit code after an interrupt that was handled.

    CPython notes a `KeyboardInterrupt` that leaves code given as text, as libraries make of their classes, and at its
    end kills the process by SIGINT, whoever caught it since.  It forgets that when the next text is run, even an empty
    one.
    """
    exec("")


def _drop_output() -> None:
    """Let nothing be written at the end of the process where writing has failed already."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _refused() -> int:
    """Exit code for a command line or an output that nothing can be done with, else 0."""
    if sys.stdout is None:
        return _fail("standard output is closed; results have nowhere to go", WRONG_INPUT)
    for word in sys.argv[1:]:
        try:
            word.encode()
        except UnicodeEncodeError:
            return _fail(f"{os.fsencode(word)!r} is not UTF-8 text; arguments must be", WRONG_INPUT)
    return 0


def _run() -> int:
    import click

    from hydra_dse.cli.app import app
    from hydra_dse.errors import InputError, Interrupted, NothingFeasible, UnitError

    try:
        code = app.main(prog_name="hydra-dse", standalone_mode=False)
    except SystemExit:
        # click answers a closed pipe with exit code 1 and a wrapped output; to us it is no error.
        if "PacifyFlushWrapper" in type(sys.stdout).__name__:
            raise BrokenPipeError from None
        raise
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
    if sys.stderr is None:
        return code
    sys.stderr.write("".join(f"error: {line}\n" for line in message.splitlines()))
    return code
