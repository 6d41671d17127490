"""The package of a design: where its parts sit, how its links are loaded, how busy its parts are."""

from __future__ import annotations

import numpy as np

from hydra_dse.design.nouns import Design
from hydra_dse.mapping import reference_traffic
from hydra_dse.model.blocks import Model
from hydra_dse.network_load import LinkLoad
from hydra_dse.placement import place_design
from hydra_dse.report.charts import BLUE, ORANGE, Axis, Bar, BarRow, Bars, Package, Plot, Tile, Wire
from hydra_dse.report.records import Section
from hydra_dse.report.run import Run
from hydra_dse.results import metric
from hydra_dse.search.estimating import PLACEMENT_SEED

HEADING = "Package"
SHARES = ("hbm_utilization", "noi_utilization_max", "kv_occupancy", "state_occupancy")


def package_section(run: Run) -> Section:
    """The floorplan of the recommended design and how busy its parts are."""
    if run.recommended < 0:
        return Section(HEADING, absent="no design is feasible")
    plots = [plot for plot in (_floorplan(run), _shares(run)) if plot is not None]
    return Section(HEADING, (), tuple(plots), absent="" if plots else "the design has no placement and no shares")


def floorplan(design: Design, model: Model, seed: int) -> Package | None:
    """Tiles and links of a design; link loads are those of one served request of medium length.

    Both directions of a link are drawn as one, loaded like the busier of the two.  None where it has no placement.
    """
    placed, _ = place_design(design, model, seed)
    if placed.placement is None:
        return None
    package = placed.package
    load = LinkLoad(package, placed.placement)
    bytes_on = load.loads(reference_traffic(placed, model))
    slots = package.topology.slots
    worst = float(bytes_on.max(initial=0.0)) or 1.0
    busier: dict[tuple[int, int], float] = {}
    for (source, target), amount in zip(load.routes.links, bytes_on.tolist(), strict=True):
        pair = (min(source, target), max(source, target))
        busier[pair] = max(busier.get(pair, 0.0), amount / worst)
    wires = [
        Wire((slots[a].x_mm, slots[a].y_mm), (slots[b].x_mm, slots[b].y_mm), share) for (a, b), share in busier.items()
    ]
    names = [group.name for group in package.dies for _ in range(group.count)]
    names += [group.name for group in package.memories for _ in range(group.count)]
    tiles = []
    for component, slot in enumerate(placed.placement.slots):
        at = slots[slot]
        tiles.append(Tile(at.x_mm, at.y_mm, at.width_mm, at.height_mm, names[component], names[component]))
    return Package(tuple(tiles), tuple(wires)) if tiles else None


def _floorplan(run: Run) -> Plot | None:
    drawn = floorplan(run.design(run.recommended), run.experiment.workload.models[0], PLACEMENT_SEED)
    if drawn is None:
        return None
    rows: list[tuple[object, ...]] = [
        ("tile", tile.label, tile.x_mm, tile.y_mm, tile.width_mm, tile.height_mm, "") for tile in drawn.tiles
    ]
    rows += [("link", "", *wire.start, *wire.end, wire.load) for wire in drawn.wires]
    caption = (
        f"Design {run.identity(run.recommended)} from above: tiles by group; links by the bytes they carry for a "
        "request of medium length, both directions drawn as the busier one."
    )
    columns = ("kind", "group", "x_mm", "y_mm", "width_or_x1_mm", "height_or_y1_mm", "relative_load")
    return Plot("floorplan", "Floorplan and link loads", caption, drawn, columns, rows)


def _shares(run: Run) -> Plot | None:
    """How busy the parts of the recommended design are, and how full its memory is."""
    scores = run.designs.scores
    identity = run.identity(run.recommended)
    names = [*(name for name in scores.metrics if name.startswith("utilization_")), *SHARES]
    estimated = {name: run.estimate(name, run.recommended) for name in names}
    rows, bars = [], []
    for name, value in estimated.items():
        if not np.isfinite(value):
            continue
        found = run.validation.get((identity, name))
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
    return Plot("shares", "Busy shares", caption, chart, ("metric", "estimated", "simulated"), rows)
