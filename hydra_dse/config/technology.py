"""Technologies by library name or from a user's YAML file."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from hydra_dse.config.document import Document
from hydra_dse.config.finder import looks_like_path
from hydra_dse.config.library import library, library_names
from hydra_dse.config.loader import load_yaml, validate
from hydra_dse.errors import Fault, InputError, did_you_mean
from hydra_dse.hardware.technology import (
    Cooling,
    DieTest,
    Economics,
    Interposer,
    Leakage,
    Process,
    Solid,
    Substrate,
    Technology,
    Wafer,
)

if TYPE_CHECKING:
    from hydra_dse.config import technology_schema as schema

KIND = "technologies"
UM_PER_MM = 1e3


def load_technology(ref: str | Path = "default") -> Technology:
    """Return a technology by library name or YAML file.

    Raises:
        InputError: unknown name, or every fault of the file.
    """
    text, known = str(ref), library_names(KIND)
    if text in known:
        return _of_library(text)
    if looks_like_path(text) or Path(text).is_file():
        document = load_yaml(ref)
        return technology_of(document, str(document.data.get("name") or Path(ref).stem))
    listed = f"; known: {', '.join(known)}, or the path of a YAML file"
    raise InputError(Fault(f"no technology called {text!r} in the library{did_you_mean(text, known)}{listed}"))


@cache
def _of_library(name: str) -> Technology:
    return technology_of(library(KIND).part((KIND, name)), name)


def technology_of(document: Document, name: str) -> Technology:
    """Return the technology that a document describes."""
    from hydra_dse.config.technology_schema import TechnologySection

    section = validate(document, TechnologySection)
    dies, prices = section.dies, section.memory_usd_per_gb
    nodes = sorted(section.processes.nodes.items())
    return Technology(
        name=name,
        processes=tuple(Process(node, part.defects_per_cm2, part.wafer, part.nre) for node, part in nodes),
        yield_model=dies.yield_model,
        clustering=dies.clustering,
        wafer=Wafer(dies.wafer_diameter, dies.edge, dies.scribe),
        test=DieTest(dies.test_coverage, dies.test_usd_per_mm2),
        interposer=_interposer(section.interposer),
        substrate=Substrate(**section.substrate.model_dump(exclude={"source"})),
        memory_usd_per_gb=tuple((key, float(price)) for key, price in prices.items() if not isinstance(price, str)),
        economics=Economics(**section.economics.model_dump(exclude={"source"})),
        cooling=_cooling(section.cooling),
        leakage=Leakage(**section.leakage.model_dump(exclude={"source"})),
        sources=_sources(section),
    )


def _sources(section: schema.TechnologySection) -> tuple[tuple[str, str], ...]:
    parts = {
        "processes": section.processes.source,
        "dies": section.dies.source,
        "interposer": section.interposer.source,
        "substrate": section.substrate.source,
        "memory": str(section.memory_usd_per_gb.get("source", "")),
        "economics": section.economics.source,
        "cooling": section.cooling.source,
        "leakage": section.leakage.source,
    }
    return tuple(parts.items())


def _interposer(section: schema.InterposerSection) -> Interposer:
    return Interposer(
        wafer_usd=section.wafer,
        defects_per_cm2=section.defects_per_cm2,
        clustering=section.clustering,
        bond_yield=section.bond_yield,
        bump_usd_per_mm2=section.bump_usd_per_mm2,
        c4_usd_per_mm2=section.c4_usd_per_mm2,
        nre_usd_per_mm2=section.nre_usd_per_mm2,
        nre_fixed_usd=section.nre_fixed,
        pitch_um=section.pitch * UM_PER_MM,
        layers=section.layers,
        wire_bits_per_s=section.wire_gbit_per_s * 1e9,
        max_reticles=section.max_reticles,
        stitch_yield=section.stitch_yield,
        stitch_cost=section.stitch_cost,
    )


def _cooling(section: schema.CoolingSection) -> Cooling:
    def solid(part: schema.SolidSection) -> Solid:
        return Solid(part.thickness, part.w_per_mk)

    return Cooling(
        ambient_c=section.ambient_c,
        sink_k_per_w=section.sink_k_per_w,
        overhang_mm=section.overhang,
        interposer=solid(section.interposer),
        bumps=solid(section.bumps),
        die=solid(section.die),
        tim=solid(section.tim),
        spreader=solid(section.spreader),
        sink=solid(section.sink),
        fill_w_per_mk=section.fill_w_per_mk,
        stack_mm2_k_per_w=section.stack_mm2_k_per_w,
        die_limit_c=section.die_limit_c,
        dram_limit_c=section.dram_limit_c,
        refresh_c=section.refresh_c,
        refresh_share=section.refresh_share,
    )
