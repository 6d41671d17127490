"""Die sections as nouns: fixed dies, and recipes of components that a link bandwidth completes."""

from __future__ import annotations

import csv
import math
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from hydra_dse.config.finder import path_below
from hydra_dse.config.library import library
from hydra_dse.config.loader import Document, validate
from hydra_dse.errors import Fault, InputError, did_you_mean, one_of
from hydra_dse.hardware.components import Chiplet
from hydra_dse.hardware.composition import Components, Core, DieRecipe

if TYPE_CHECKING:
    from hydra_dse.config.hardware_schema import ComponentsSection, ComposedDieSection, FixedDieSection

Die = DieRecipe | Chiplet
DIE_KINDS = ("fixed", "composed")


def die_of(document: Document, name: str) -> Die:
    """Return the die that a document describes."""
    from hydra_dse.config.hardware_schema import ComposedDieSection, FixedDieSection

    kind = document.data.get("kind", "fixed")
    if kind not in DIE_KINDS:
        message = f"{kind!r} is not accepted; expected {one_of(DIE_KINDS)}{did_you_mean(str(kind), DIE_KINDS)}"
        raise InputError(document.fault(("kind",), message))
    if kind == "composed":
        return _recipe_of(document, validate(document, ComposedDieSection), name)
    return _fixed_of(document, validate(document, FixedDieSection), name)


def _fixed_of(document: Document, section: FixedDieSection, name: str) -> Chiplet:
    memory, array, far = section.memory, section.array, section.far_memory
    return Chiplet(
        name=name,
        style=section.style,
        technology_nm=section.technology_nm,
        area_mm2=section.area,
        matmul_flops_per_s=section.peak,
        vector_flops_per_s=section.vector_peak,
        sram_bytes=section.sram.capacity,
        sram_bandwidth_bytes_per_s=section.sram.bandwidth,
        ports=section.links,
        link_bandwidth_bytes_per_s=section.link_bandwidth,
        matmul_format=section.format,
        format_speed=tuple(section.format_speed.items()),
        array_rows=array.rows if array else 1,
        array_columns=array.columns if array else 1,
        cores=array.cores if array else 1,
        memory_bytes=memory.capacity if memory else 0.0,
        memory_bandwidth_bytes_per_s=memory.bandwidth if memory else 0.0,
        joules_per_flop=section.energy.flop,
        joules_per_vector_flop=section.energy.vector_flop,
        joules_per_sram_byte=section.energy.sram,
        joules_per_memory_byte=section.energy.memory,
        static_power_w=section.static_power,
        shape_efficiency=_latency_table(document, section),
        source=section.source,
        far_memory_bytes=far.capacity if far else 0.0,
        far_memory_bandwidth_bytes_per_s=far.bandwidth if far else 0.0,
        execution=section.execution,
    )


def _recipe_of(document: Document, section: ComposedDieSection, name: str) -> DieRecipe:
    known = tuple(library("chiplets").part(("components",)).data)
    if section.components not in known:
        hint = did_you_mean(section.components, known)
        message = f"no components called {section.components!r}{hint}; known: {', '.join(known)}"
        raise InputError(document.fault(("components",), message))
    components, cores = _components(section.components)
    if section.core not in cores:
        hint = did_you_mean(section.core, cores)
        message = f"{section.components} has no core {section.core!r}{hint}; known: {', '.join(cores)}"
        raise InputError(document.fault(("core",), message))
    return DieRecipe(
        name=name,
        style=section.style,
        components=components,
        core=cores[section.core],
        ports=section.links,
        link_bandwidth_bytes_per_s=section.link_bandwidth,
        budget_mm2=section.budget or 0.0,
        core_share=section.core_share or 0.0,
        cores=section.cores or 0,
        banks=section.sram_banks or 0,
        matmul_format=section.format,
        format_speed=tuple(section.format_speed.items()),
        shape_efficiency=_latency_table(document, section),
        source=section.source,
    )


@cache
def _components(name: str) -> tuple[Components, dict[str, Core]]:
    from hydra_dse.config.hardware_schema import ComponentsSection, ScaledComponentsSection

    document = library("chiplets").part(("components", name))
    if "scaled_from" in document.data:
        scaled = validate(document, ScaledComponentsSection)
        base, cores = _components(scaled.scaled_from)
        smaller = {
            key: Core(
                key,
                core.area_mm2 * scaled.area_scale,
                core.array_rows,
                core.array_columns,
                core.macs,
                core.vector_lanes,
            )
            for key, core in cores.items()
        }
        parts = base.scaled(name, scaled.technology_nm, scaled.area_scale, scaled.energy_scale, scaled.source)
        return parts, smaller
    section = validate(document, ComponentsSection)
    cores = {
        key: Core(key, core.area, *core.array, core.macs, core.vector_lanes) for key, core in section.cores.items()
    }
    return _unscaled(name, section), cores


def _unscaled(name: str, section: ComponentsSection) -> Components:
    return Components(
        name=name,
        technology_nm=section.technology_nm,
        clock_hz=section.clock,
        bank_mm2=section.sram_bank.area,
        bank_bytes=section.sram_bank.capacity,
        bank_bandwidth_bytes_per_s=section.sram_bank.bandwidth,
        link_step_bytes_per_s=section.link.step,
        phy_mm2=section.link.phy,
        bumps_mm2=section.link.bumps,
        dma_mm2=section.link.dma,
        sfu_mm2=section.sfu.area,
        sfu_activations_per_s=section.sfu.activations_per_s,
        joules_per_flop=section.energy.flop,
        joules_per_vector_flop=section.energy.vector_flop,
        joules_per_sram_byte=section.energy.sram,
        static_w_per_mm2=section.static_w_per_mm2,
        source=section.source,
    )


def _latency_table(
    document: Document, section: FixedDieSection | ComposedDieSection
) -> tuple[tuple[float, float], ...]:
    if section.latency_table_file is None:
        return tuple(section.latency_table or ())
    return read_latency_table(path_below(document, ("latency_table_file",)))


def read_latency_table(path: Path) -> tuple[tuple[float, float], ...]:
    """Read a CSV file with the columns `rows` (ascending) and `share` (of peak, above 0 and at most 1).

    Raises:
        InputError: with file and line of every fault.
    """
    faults: list[Fault] = []
    pairs: list[tuple[float, float]] = []
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(Fault(f"cannot be read as UTF-8 text: {error}", str(path))) from None
    reader = csv.DictReader(lines)
    if not {"rows", "share"} <= set(reader.fieldnames or ()):
        raise InputError(Fault(f"needs the columns rows and share, has {reader.fieldnames}", str(path), 1))
    for row in reader:
        try:
            rows, share = float(row["rows"]), float(row["share"])
        except (TypeError, ValueError):
            faults.append(Fault(f"rows and share must be numbers, got {row}", str(path), reader.line_num))
            continue
        if not ((pairs[-1][0] if pairs else 0.0) < rows < math.inf and 0 < share <= 1):
            message = f"rows must ascend from above 0 and share lie in 0..1, got {rows}, {share}"
            faults.append(Fault(message, str(path), reader.line_num))
        pairs.append((rows, share))
    if not pairs and not faults:
        faults.append(Fault("holds no rows", str(path)))
    if faults:
        raise InputError(faults)
    return tuple(pairs)
