"""Ctrl-C at a moment of our choosing: a generation is stored whole or not at all."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from hydra_dse.errors import Interrupted, WorkersLost

STOPS = (KeyboardInterrupt, WorkersLost)
"""What ends a study before its end."""


def stopped(cause: BaseException, kept: str) -> Interrupted:
    """The message of a study that ended early: why, and what is kept and how to go on."""
    return Interrupted(f"{str(cause) or 'stopped'}; {kept}")


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold back Ctrl-C until the block is done; raise `KeyboardInterrupt` then.

    An interrupt inside a library that holds a lock or is half through a file would surface as another error.
    Outside the main thread Python delivers no signals, and nothing needs to be done.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    pressed: list[int] = []

    def remember(number: int, frame: FrameType | None) -> None:
        pressed.append(number)

    before = signal.signal(signal.SIGINT, remember)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before if before is not None else signal.SIG_DFL)
    if pressed:
        raise KeyboardInterrupt
