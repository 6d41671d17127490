"""The package of a design: where its parts sit, how its links are loaded, how busy its parts are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from hydra_dse.design.nouns import Design
from hydra_dse.estimator.explain import Explanation
from hydra_dse.hardware.components import Topology
from hydra_dse.mapping import reference_traffic
from hydra_dse.model.blocks import Model
from hydra_dse.network_load import LinkLoad
from hydra_dse.placement import place_design
from hydra_dse.report.charts import BLUE, ORANGE, Axis, Bar, BarRow, Bars, Outline, Package, Plot, Tile, Wire
from hydra_dse.report.records import Section
from hydra_dse.report.run import Run
from hydra_dse.report.served import Served, sections_of
from hydra_dse.report.temperatures import slot_temperatures
from hydra_dse.results import metric
from hydra_dse.results.metrics import UTILIZATION
from hydra_dse.search.estimating import PLACEMENT_SEED
from hydra_dse.workload import served as served_models

HEADING = "Package"
SHARES = ("hbm_utilization", "noi_utilization_max", "kv_occupancy", "state_occupancy")


def package_section(run: Run, loads: Sequence[Served]) -> Section:
    """The floorplan of the recommended design and how busy its parts are."""
    return sections_of(run, loads, HEADING, _section)


def _section(run: Run, served: Served) -> Section:
    plots = [plot for plot in (_floorplan(run, served), _shares(run, served)) if plot is not None]
    return Section(HEADING, (), tuple(plots), absent="" if plots else "the design has no placement and no shares")


def busy_links(found: Explanation) -> dict[tuple[int, int], float]:
    """Share of time in which each directed link is busy, by its slots: that of each iteration times its own share.

    And that of hand-offs between memories.
    """
    busy: dict[tuple[int, int], float] = {}
    for iteration in found.iterations:
        share = iteration.iterations_per_s * iteration.composition.time_s
        for link in iteration.composition.links:
            source, target = (int(slot) for slot in link.link.split("→"))
            busy[source, target] = busy.get((source, target), 0.0) + share * link.busy_share
    for moved in found.handoff.links if found.handoff is not None else ():
        source, target = (int(slot) for slot in moved.link.split("→"))
        busy[source, target] = busy.get((source, target), 0.0) + moved.busy_share
    return busy


def reference_loads(placed: Design, model: Model) -> dict[tuple[int, int], float]:
    """Bytes on each directed link for one served request of medium length, by its slots."""
    if placed.placement is None:
        return {}
    load = LinkLoad(placed.package, placed.placement)
    amounts = load.loads(reference_traffic(placed, model)).tolist()
    return {
        (int(source), int(target)): amount for (source, target), amount in zip(load.routes.links, amounts, strict=True)
    }


def floorplan(
    placed: Design,
    loads: Mapping[tuple[int, int], float],
    notes: Mapping[str, str],
    unit: str,
    celsius: Mapping[int, float],
) -> Package:
    """Tiles and links of a placed design; both directions of a link are drawn as one, as the busier.

    Args:
        placed: the design with its placement.
        loads: of directed links, by their slots.
        notes: by group, what stands in its tiles.
        unit: what loads are: `"busy"` (shares of time) or `"bytes"`.
        celsius: temperature of slots, where known.
    """
    package = placed.package
    slots = package.topology.slots
    worst = max(loads.values(), default=0.0) or 1.0
    pairs = dict.fromkeys((min(pair), max(pair)) for pair in loads)
    wires = []
    for a, b in pairs:
        amount = max(loads.get((a, b), 0.0), loads.get((b, a), 0.0))
        words = f"{100 * amount:.3g} % busy" if unit == "busy" else f"{amount / worst:.2f} of the busiest link"
        ends = (slots[a].x_mm, slots[a].y_mm), (slots[b].x_mm, slots[b].y_mm)
        wires.append(Wire(*ends, amount / worst, f"link {a}–{b}: {words}"))
    names = package.component_groups
    tiles = []
    for component, slot in enumerate(placed.placement.slots if placed.placement is not None else ()):
        at, name = slots[slot], names[component]
        heat = f"{celsius[slot]:.0f} °C" if slot in celsius else ""
        share = notes.get(name, "")
        note = ", ".join(words for words in (share, heat) if words)
        said = ", ".join(
            words for words in (share and f"{share} of the time busy", heat and f"{heat} at its hottest") if words
        )
        words = f"{name} on slot {slot}" + (f": {said}" if said else "")
        tiles.append(Tile(at.x_mm, at.y_mm, at.width_mm, at.height_mm, name, name, note, words))
    return Package(tuple(tiles), tuple(wires), _outlines(package.topology))


def _outlines(topology: Topology) -> tuple[Outline, ...]:
    """The edge of each of several packages; its slots stand in the order of the packages."""
    found, first = [], 0
    for island in topology.islands:
        slots = topology.slots[first : first + len(island.slots)]
        first += len(island.slots)
        found.append(
            Outline(
                min(slot.x_mm - slot.width_mm / 2 for slot in slots),
                min(slot.y_mm - slot.height_mm / 2 for slot in slots),
                max(slot.x_mm + slot.width_mm / 2 for slot in slots),
                max(slot.y_mm + slot.height_mm / 2 for slot in slots),
            )
        )
    return tuple(found)


def _floorplan(run: Run, served: Served) -> Plot | None:
    found = served.explanation
    models = [kind.model for kind in served_models(served.workload)]
    placed, _ = place_design(run.design(run.recommended), models, PLACEMENT_SEED)
    if placed.placement is None:
        return None
    if isinstance(found, str) or not found.iterations:
        loads, unit = reference_loads(placed, models[0]), "bytes"
        words = "links by the bytes they carry for a request of medium length"
    else:
        loads, unit = busy_links(found), "busy"
        words = f"links by the share of time they are busy, the busiest {100 * max(loads.values(), default=0.0):.3g} %"
    celsius = slot_temperatures(placed, None if isinstance(found, str) else found.package)
    drawn = floorplan(placed, loads, _notes(served, placed), unit, celsius)
    rows: list[tuple[object, ...]] = [
        ("tile", tile.label, tile.x_mm, tile.y_mm, tile.width_mm, tile.height_mm, tile.note) for tile in drawn.tiles
    ]
    rows += [("link", wire.note, *wire.start, *wire.end, wire.load) for wire in drawn.wires]
    hot = " and their hottest place at the mean load" if celsius else ""
    caption = (
        f"Design {run.identity(run.recommended)} from above: tiles by group with the share of time they are busy{hot}; "
        f"{words}, both directions drawn as the busier one."
        f"{' Dashed: the edges of the packages.' if drawn.outlines else ''}"
    )
    columns = ("kind", "name", "x_mm", "y_mm", "width_or_x1_mm", "height_or_y1_mm", "note_or_relative_load")
    return Plot(served.stem("floorplan"), "Floorplan and link loads", caption, drawn, columns, rows)


def _notes(served: Served, placed: Design) -> dict[str, str]:
    """How busy the tiles of each group are."""
    shares = {group.name: served.metrics.get(f"{UTILIZATION}{group.name}", np.nan) for group in placed.package.dies}
    memory = served.metrics.get("hbm_utilization", np.nan)
    shares |= {group.name: memory for group in placed.package.memories}
    return {name: f"{100 * share:.0f} %" for name, share in shares.items() if np.isfinite(share)}


def _shares(run: Run, served: Served) -> Plot | None:
    """How busy the parts of the recommended design are, and how full its memory is."""
    identity = run.identity(run.recommended)
    names = [*(name for name in served.metrics if name.startswith("utilization_")), *SHARES]
    estimated = {name: served.metrics.get(name, np.nan) for name in names}
    rows, bars = [], []
    for name, value in estimated.items():
        if not np.isfinite(value):
            continue
        found = run.validation.get((identity, name)) if served.simulated else None
        simulated = float("nan") if found is None else found.simulated
        both: tuple[Bar, ...] = (Bar(0.0, value, BLUE, "estimated"),)
        if found is not None and np.isfinite(simulated):
            both += (Bar(0.0, simulated, ORANGE, "simulated", found.ci_low, found.ci_high),)
        bars.append(BarRow(metric(name).label, both))
        rows.append((name, value, simulated))
    if not rows:
        return None
    caption = f"How busy the parts of design {identity} are at its offered load, and what share of its cache is held."
    chart = Bars(Axis("share of time or of capacity [1]"), tuple(bars))
    return Plot(served.stem("shares"), "Busy shares", caption, chart, ("metric", "estimated", "simulated"), rows)
