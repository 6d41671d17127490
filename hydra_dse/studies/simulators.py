"""Simulators by name, through the entry-point group `hydra_dse.simulators`: a stranger's as well as ours."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import cast

import hydra_dse
from hydra_dse import extensions
from hydra_dse.design.evaluator import Evaluator
from hydra_dse.errors import Fault, InputError, did_you_mean, one_of

_OURS = "simulators"


def find_simulator(name: str = "serving") -> Evaluator:
    """Return the simulator registered as `name`.

    Raises:
        InputError: no such simulator, one that cannot be loaded, or another package named `simulators` hides ours.
    """
    here = extensions.here(extensions.SIMULATORS, name)
    if here is not None:
        return _checked(here, repr(name))
    found = {point.name: point for point in entry_points(group=extensions.SIMULATORS)}
    if name not in found:
        known = f"there are {one_of(sorted(found))}" if found else "none is installed: install hydra-dse with pip"
        raise InputError(Fault(f"no simulator {name!r}{did_you_mean(name, found)}; {known}"))
    if found[name].module.split(".")[0] == _OURS:
        _check_not_hidden()
    return _load(found[name])


def _load(point: EntryPoint) -> Evaluator:
    try:
        simulator = point.load()()
    except (ImportError, AttributeError, TypeError) as error:
        raise InputError(Fault(f"simulator {point.name!r} ({point.value}) cannot be loaded: {error}")) from error
    return _checked(simulator, f"{point.name!r} ({point.value})")


def _checked(simulator: object, what: str) -> Evaluator:
    if not callable(getattr(simulator, "evaluate", None)):
        raise InputError(Fault(f"simulator {what} has no method 'evaluate'"))
    return cast(Evaluator, simulator)


def _check_not_hidden() -> None:
    """Our two packages are installed side by side; a `simulators` from elsewhere comes first on the path."""
    home = Path(hydra_dse.__file__).resolve().parent.parent
    spec = find_spec(_OURS)
    places = list(spec.submodule_search_locations or ()) if spec is not None else []
    if not any(Path(place).resolve() == home / _OURS for place in places):
        where = places[0] if places else "nowhere"
        message = f"the package {_OURS!r} found at {where} is not the one of hydra-dse at {home / _OURS}"
        raise InputError(Fault(f"{message}: rename it, remove it, or start from another folder"))
