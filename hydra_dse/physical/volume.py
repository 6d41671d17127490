"""Packages made in another volume: over how many of them design and masks are spread."""

from __future__ import annotations

from dataclasses import replace

from hydra_dse.hardware.components import Package
from hydra_dse.hardware.technology import Technology
from hydra_dse.physical.cost import technology_of

# By identity, as costs and temperatures of packages are known by the identity of their technology: it must be one.
_KNOWN: dict[tuple[int, float], tuple[Technology, Technology]] = {}
_KEPT = 64


def at_volume(package: Package, volume: float) -> Package:
    """The package, and each of several, with non-recurring costs spread over `volume` packages (systems of them)."""
    technology = _spread(technology_of(package), volume)
    parts = tuple(replace(part, technology=technology) for part in package.parts)
    return replace(package, technology=technology, parts=parts)


def _spread(technology: Technology, volume: float) -> Technology:
    known = _KNOWN.get((id(technology), volume))
    if known is not None and known[0] is technology:
        return known[1]
    if len(_KNOWN) >= _KEPT:
        _KNOWN.clear()
    fresh = replace(technology, economics=replace(technology.economics, volume=volume))
    _KNOWN[id(technology), volume] = (technology, fresh)
    return fresh
