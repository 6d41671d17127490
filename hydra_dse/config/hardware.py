"""Dies, memory stacks, links and calibrations by library name or from a user's YAML file.

A user's die is one YAML file (`kind: fixed` with its figures, or `kind: composed` from components of the library),
with an optional latency table: pairs `[rows, share of peak]` in `latency_table`, or a CSV file beside it that
`latency_table_file` names.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from hydra_dse.config.dies import Die, die_of
from hydra_dse.config.finder import looks_like_path, path_below
from hydra_dse.config.library import library, library_names
from hydra_dse.config.loader import Document, load_yaml, validate
from hydra_dse.errors import Fault, InputError, did_you_mean
from hydra_dse.hardware.calibration import Calibration, CalibrationSet
from hydra_dse.hardware.components import Chiplet, MemoryStack
from hydra_dse.hardware.composition import compose
from hydra_dse.hardware.links import LinkClass

if TYPE_CHECKING:
    from hydra_dse.config.hardware_schema import CalibrationSection

Noun = TypeVar("Noun")


def load_chiplet(ref: str | Path, link_bandwidth_bytes_per_s: float | None = None) -> Chiplet:
    """Return a die by library name or YAML file, composed at a link bandwidth (default: the die's own).

    Raises:
        InputError: unknown name, or every fault of the file.
    """
    return chiplet_at(load_die(ref), link_bandwidth_bytes_per_s)


def load_die(ref: str | Path) -> Die:
    """Return a die before its links are known: a recipe, or a die of fixed size."""
    return _library_die(ref) if _is_name("chiplets", ref) else die_of(*_own(ref))


def chiplet_at(die: Die, link_bandwidth_bytes_per_s: float | None) -> Chiplet:
    """Return the die at a link bandwidth; a die of fixed size stays as it is."""
    return die if isinstance(die, Chiplet) else compose(die, link_bandwidth_bytes_per_s)


def load_memory(ref: str | Path) -> MemoryStack:
    """Return a memory stack by library name or YAML file."""
    return _library_memory(ref) if _is_name("memories", ref) else _memory_of(*_own(ref))


def load_link(ref: str | Path) -> LinkClass:
    """Return a link class by library name or YAML file."""
    return _library_link(ref) if _is_name("links", ref) else _link_of(*_own(ref))


def load_calibration(ref: str | Path = "default") -> CalibrationSet:
    """Return calibrations by library name or YAML file."""
    return _library_calibration(ref) if _is_name("calibrations", ref) else _calibration_of(*_own(ref))


def load_from(document: Document, path: tuple[str | int, ...], load: Callable[[str | Path], Noun]) -> Noun:
    """Load what the text at a key path names: a library name, or a file below the document's folder.

    Raises:
        InputError: at the key's place for an unknown name, at the file's own lines for its faults.
    """
    ref = str(document.get(path))
    if looks_like_path(ref):
        return load(path_below(document, path))
    try:
        return load(ref)
    except InputError as error:
        raise InputError(document.fault(path, "; ".join(fault.message for fault in error.faults))) from None


def _is_name(kind: str, ref: str | Path) -> bool:
    text = str(ref)
    known = library_names(kind)
    if text in known:
        return True
    if looks_like_path(text) or Path(text).is_file():
        return False
    noun = {"memories": "memory"}.get(kind, kind.removesuffix("s"))
    listed = f"; known: {', '.join(known)}, or the path of a YAML file"
    raise InputError(Fault(f"no {noun} called {text!r} in the library{did_you_mean(text, known)}{listed}"))


def _own(ref: str | Path) -> tuple[Document, str]:
    document = load_yaml(ref)
    return document, str(document.data.get("name") or Path(ref).stem)


def _entry(kind: str, ref: str | Path) -> tuple[Document, str]:
    return library(kind).part((kind, str(ref))), str(ref)


@cache
def _library_die(ref: str | Path) -> Die:
    return die_of(*_entry("chiplets", ref))


@cache
def _library_memory(ref: str | Path) -> MemoryStack:
    return _memory_of(*_entry("memories", ref))


@cache
def _library_link(ref: str | Path) -> LinkClass:
    return _link_of(*_entry("links", ref))


@cache
def _library_calibration(ref: str | Path) -> CalibrationSet:
    return _calibration_of(*_entry("calibrations", ref))


def _memory_of(document: Document, name: str) -> MemoryStack:
    from hydra_dse.config.hardware_schema import MemorySection

    section = validate(document, MemorySection)
    return MemoryStack(
        name=name,
        technology=section.technology,
        capacity_bytes=section.capacity,
        bandwidth_bytes_per_s=section.bandwidth,
        joules_per_byte=section.energy,
        footprint_mm2=section.footprint,
        phy_area_mm2=section.phy_area,
        base_die_area_mm2=section.base_die_area,
        static_power_w=section.static_power,
        ports=section.ports,
        peak_bandwidth_bytes_per_s=section.peak_bandwidth,
        source=section.source,
    )


def _link_of(document: Document, name: str) -> LinkClass:
    from hydra_dse.config.hardware_schema import LinkSection

    section = validate(document, LinkSection)
    return LinkClass(
        name,
        section.latency,
        section.energy,
        section.efficiency,
        section.density,
        section.reach,
        section.source,
        section.phy_density or math.inf,
    )


def _calibration_of(document: Document, name: str) -> CalibrationSet:
    from hydra_dse.config.hardware_schema import CalibrationSetSection

    section = validate(document, CalibrationSetSection)
    styles = {str(style): _one_calibration(f"{name}/{style}", part) for style, part in section.styles.items()}
    return CalibrationSet(_one_calibration(name, section.default), styles)


def _one_calibration(name: str, section: CalibrationSection) -> Calibration:
    return Calibration(
        name=name,
        compute=dict(section.compute),
        memory={str(kind): share for kind, share in section.memory.items()},
        operator_overhead_s=section.operator_overhead,
        iteration_overhead_s=section.iteration_overhead,
        relative_error=section.relative_error,
        source=section.source,
        half_width=section.half_width,
        collective_overhead_s=section.collective_overhead,
        stage_imbalance=section.stage_imbalance,
        kv_access_bytes=section.kv_access,
        intervals=dict(section.intervals),
        basis={name: str(basis) for name, basis in section.basis.items()},
        ranges=dict(section.ranges),
    )
