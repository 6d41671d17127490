"""Readers of profiles: which one reads a file is decided by its content.

A new format is one function from a path to profiles and one that recognises the head of a file, joined in a `Reader`
and listed in `READERS`; a package of one's own registers its `Reader` under the entry-point group `hydra_dse.readers`.
Readers are the only place that knows vendors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import entry_points
from pathlib import Path

from hydra_dse.bench.readers import cerebras, graphcore, sambanova, serving, tidy
from hydra_dse.bench.readers.nouns import Head, Reader
from hydra_dse.bench.record import Profile
from hydra_dse.errors import Fault, InputError

__all__ = ["READERS", "Head", "Reader", "read_profiles"]

HEAD_BYTES = 65536
GROUP = "hydra_dse.readers"
READERS: tuple[Reader, ...] = (
    *tidy.READERS,
    *cerebras.READERS,
    *sambanova.READERS,
    *graphcore.READERS,
    *serving.READERS,
)


def all_readers() -> tuple[Reader, ...]:
    """Ours, then those that installed packages register."""
    others = (point.load() for point in sorted(entry_points(group=GROUP), key=lambda point: point.name))
    return (*READERS, *others)


def read_profiles(path: Path, platform: str = "", readers: Sequence[Reader] | None = None) -> list[Profile]:
    """Return the profiles in a file.

    Args:
        path: a report, log or table in one of the formats.
        platform: chip it was measured on, in place of what the reader takes it for.
        readers: formats to try, in order; by default `all_readers()`.

    Raises:
        InputError: no such file, a format nobody knows, or a malformed line (with its place).
    """
    head, readers = _head(path), all_readers() if readers is None else readers
    reader = next((each for each in readers if each.recognises(head)), None)
    if reader is None:
        known = ", ".join(each.name for each in readers)
        raise InputError(Fault(f"is in no format known here; known: {known}", str(path), 1))
    profiles = list(reader.read(path))
    if not profiles:
        raise InputError(Fault(f"holds no row ({reader.name})", str(path)))
    return [replace(profile, platform=platform) for profile in profiles] if platform else profiles


def _head(path: Path) -> Head:
    try:
        with path.open("rb") as file:
            start = file.read(HEAD_BYTES)
    except OSError as error:
        raise InputError(Fault(f"cannot be read: {error.strerror}", str(path))) from None
    return Head(start)
