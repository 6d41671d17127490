"""Placed designs as inputs of other tools: HotSpot, RapidChiplet, BookSim.

Each format is a function from a `Layout` to named files; whatever such a tool cannot express stands in the files'
README, so that its numbers are not read as ours.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hydra_dse.interchange.booksim import booksim_files
from hydra_dse.interchange.hotspot import hotspot_files
from hydra_dse.interchange.layout import Layout, layout_of
from hydra_dse.interchange.powers import powers_of
from hydra_dse.interchange.rapidchiplet import rapidchiplet_files

FORMATS: Mapping[str, Callable[[Layout], dict[str, str]]] = {
    "hotspot": hotspot_files,
    "rapidchiplet": rapidchiplet_files,
    "booksim": booksim_files,
}

__all__ = ["FORMATS", "Layout", "layout_of", "powers_of"]
