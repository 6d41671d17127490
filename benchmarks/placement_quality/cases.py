"""Packages to place: HYDRA's dies and stacks on a mesh, a torus, a hexagonal grid and an irregular floorplan.

The irregular floorplan is a block of two or four large dies in a ring of tiles of the size of HYDRA's, 9 slots or 20;
a large die is one of the largest group at two and a half times the area, power and speed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from hydra_dse.config import load_space
from hydra_dse.design.nouns import Design
from hydra_dse.design.space import SearchSpace
from hydra_dse.hardware.components import Chiplet, DieGroup, Slot, Topology
from hydra_dse.routing import build_topology, floorplan

KINDS = ("mesh", "torus", "hex", "irregular")
TILE_MM = 11.1
LARGE = 2.5
IRREGULAR = 20
"""Slots of the large irregular floorplan: four large ones and a closed ring of tiles."""
_HEX_LINKS = 6
_LARGE_LINKS = 8
_GAP_MM = 0.5


@dataclass(frozen=True)
class Layout:
    """A topology by its name.

    Attributes:
        large: slots for large dies; they come first.
    """

    kind: str
    topology: Topology
    large: int = 0


def layout(kind: str, columns: int, rows: int) -> Layout:
    """The layout of a kind with `columns` × `rows` tiles; the irregular one has 9 slots or 20, some of them large."""
    if kind != "irregular":
        return Layout(kind, build_topology(kind, columns, rows, TILE_MM, TILE_MM))
    return _irregular(2, 9) if columns * rows < IRREGULAR else _irregular(4, IRREGULAR)


def _irregular(count: int, slots: int) -> Layout:
    """Large slots in a row or block, and tiles around them."""
    side = TILE_MM * LARGE**0.5
    pitch = side + _GAP_MM
    large = [Slot((n % 2) * pitch, (n // 2) * pitch, side, side) for n in range(count)]
    width, height = 2 * side + _GAP_MM, (count // 2) * pitch - _GAP_MM
    ring = list(_ring(-side / 2, -side / 2, width, height, slots - count))
    return Layout("irregular", floorplan([*large, *ring]), count)


def _ring(left: float, bottom: float, width: float, height: float, count: int) -> Iterator[Slot]:
    """Tiles below, above, left and right of a rectangle in turn, then at its corners, as many as wanted."""
    half = TILE_MM / 2
    across, along = int(width // TILE_MM), int(height // TILE_MM)
    step_x, step_y = width / across, height / along
    sides = [
        [(left + (n + 0.5) * step_x, bottom - _GAP_MM - half) for n in range(across)],
        [(left + (n + 0.5) * step_x, bottom + height + _GAP_MM + half) for n in range(across)],
        [(left - _GAP_MM - half, bottom + (n + 0.5) * step_y) for n in range(along)],
        [(left + width + _GAP_MM + half, bottom + (n + 0.5) * step_y) for n in range(along)],
        [(x, y) for y in (bottom - _GAP_MM - half, bottom + height + _GAP_MM + half)
         for x in (left - _GAP_MM - half, left + width + _GAP_MM + half)],
    ]  # fmt: skip
    for x, y in [place for side in sides for place in side][:count]:
        yield Slot(x, y, TILE_MM, TILE_MM)


def on(design: Design, where: Layout) -> Design:
    """The design with its components on a layout, not placed; tiles of a hexagonal grid have six links.

    On the irregular one the large slots take dies of the largest group, which grow.
    """
    package = design.package
    dies = package.dies
    if where.kind == "hex":
        dies = tuple(replace(group, chiplet=replace(group.chiplet, ports=_HEX_LINKS)) for group in dies)
    if where.large:
        dies = tuple(_with_large(dies, where.large))
    built = replace(package, topology=where.topology, dies=dies, limits=replace(package.limits, interposer_mm2=None))
    return replace(design, package=built, placement=None)


def _with_large(dies: tuple[DieGroup, ...], count: int) -> Iterator[DieGroup]:
    """The groups with `count` dies of the largest one, or as many as it has, replaced by large ones."""
    most = max(range(len(dies)), key=lambda place: dies[place].count)
    for place, group in enumerate(dies):
        if place != most:
            yield group
            continue
        taken = min(count, group.count)
        yield replace(group, name=f"{group.name}L", chiplet=grown(group.chiplet), count=taken)
        if group.count > taken:
            yield replace(group, count=group.count - taken)


def grown(chiplet: Chiplet) -> Chiplet:
    """A die of `LARGE` times the area, with as much more of everything on it."""
    return replace(
        chiplet,
        name=f"{chiplet.name}-large",
        area_mm2=chiplet.area_mm2 * LARGE,
        matmul_flops_per_s=chiplet.matmul_flops_per_s * LARGE,
        vector_flops_per_s=chiplet.vector_flops_per_s * LARGE,
        sram_bytes=chiplet.sram_bytes * LARGE,
        sram_bandwidth_bytes_per_s=chiplet.sram_bandwidth_bytes_per_s * LARGE,
        static_power_w=chiplet.static_power_w * LARGE,
        ports=_LARGE_LINKS,
        items=(),
    )


def mixes(space: SearchSpace) -> list[Design]:
    """One design per package of a space: the first of its inner variants."""
    inner = {parameter.name for parameter in space.parameters if parameter.inner}
    seen: dict[tuple[object, ...], Design] = {}
    for point in space.points():
        outer = tuple(value for key, value in point.items() if key not in inner)
        if outer not in seen:
            seen[outer] = space.build(point)
    return list(seen.values())


def small_designs(kind: str) -> list[Design]:
    """The packages of small-9 on a layout of nine slots."""
    where = layout(kind, 3, 3)
    return [on(design, where) for design in mixes(load_space("small-9"))]
