"""The floorplan of a design: where its parts sit and how its links are loaded."""

from __future__ import annotations

from hydra_dse.design.nouns import Design
from hydra_dse.mapping import reference_traffic
from hydra_dse.model.blocks import Model
from hydra_dse.network_load import LinkLoad
from hydra_dse.placement import place_design
from hydra_dse.report.figures import Tile, Wire


def floorplan(design: Design, model: Model, seed: int) -> tuple[list[Tile], list[Wire]]:
    """Tiles and links of a design; link loads are those of one served request of medium length.

    Both directions of a link are drawn as one, loaded like the busier of the two.  Empty where it has no placement.
    """
    placed, _ = place_design(design, model, seed)
    if placed.placement is None:
        return [], []
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
    return tiles, wires
