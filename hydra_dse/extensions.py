"""What other packages add: named objects behind entry-point groups, or registered in this process.

An installed package names its objects in its `pyproject.toml` and is found by every process:

    [project.entry-points."hydra_dse.placements"]
    spread = "my_package:spread"

`register` adds one in this process only, e.g. in a notebook; processes that a sweep starts do not know it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points

from hydra_dse.errors import Fault, InputError

ARRIVALS = "hydra_dse.arrivals"
OBJECTIVES = "hydra_dse.objectives"
PLACEMENTS = "hydra_dse.placements"
SIMULATORS = "hydra_dse.simulators"

_HERE: dict[tuple[str, str], object] = {}


def register(group: str, name: str, item: object) -> None:
    """Add an object to a group in this process.

    Raises:
        InputError: the name is taken.
    """
    if name in names(group):
        raise InputError(Fault(f"{name!r} of {group} is registered already"))
    _HERE[group, name] = item


@contextmanager
def registered(group: str, name: str, item: object) -> Iterator[None]:
    """Have an object in a group for the length of a block."""
    register(group, name, item)
    try:
        yield
    finally:
        del _HERE[group, name]


def names(group: str) -> tuple[str, ...]:
    """The names in a group, sorted."""
    return tuple(sorted({*_points(group), *(name for owner, name in _HERE if owner == group)}))


def here(group: str, name: str) -> object | None:
    """What is registered in this process, installed packages aside."""
    return _HERE.get((group, name))


def find(group: str, name: str) -> object | None:
    """The object of a name in a group; None where there is none.

    Raises:
        InputError: it is installed and cannot be loaded.
    """
    if (group, name) in _HERE:
        return _HERE[group, name]
    point = _points(group).get(name)
    if point is None:
        return None
    try:
        return _loaded(point)
    except Exception as error:  # another package's code: whatever it raises as it is imported
        raise InputError(Fault(f"{name!r} of {group} ({point.value}) cannot be loaded: {error}")) from error


@lru_cache(maxsize=8)
def _points(group: str) -> dict[str, EntryPoint]:
    return {point.name: point for point in sorted(entry_points(group=group), key=lambda one: (one.name, one.value))}


@lru_cache(maxsize=64)
def _loaded(point: EntryPoint) -> object:
    found: object = point.load()
    return found
