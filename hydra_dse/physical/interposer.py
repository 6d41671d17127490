"""The interposer of a package: what the sides of dies, its wires and the lithography of it hold.

- Shoreline: the PHYs of all links that leave a die by one side stand side by side on it; each takes
  `bandwidth / density` of the link class.
- Cuts: a link is `2 · 8 · bandwidth / rate` wires (both directions); over a straight cut go at most
  `length · layers / pitch`.  A grid is cut between its columns and between its rows; floorplans between the centres of
  their slots.  Links run straight or in an L, so that each crosses every cut between its ends once.
- Reticle: a die fits one exposure field of 26 × 33 mm, the interposer a stated number of them.
"""

from __future__ import annotations

from collections.abc import Iterator

from hydra_dse.hardware.components import Package
from hydra_dse.hardware.technology import Interposer
from hydra_dse.physical.area import RETICLE_MM2, interposer_mm2
from hydra_dse.physical.cost import technology_of
from hydra_dse.physical.geometry import geometry_of
from hydra_dse.results.nouns import Violation

# Relative slack of comparisons, so that a die that fills its slot exactly fits.
SLACK = 1e-9
BITS = 8.0
DIRECTIONS = 2.0
UM_PER_MM = 1e3


def above(demand: float, bound: float | None) -> bool:
    """Whether a bound is broken; no bound never is."""
    return bound is not None and demand > bound * (1 + SLACK)


def interposer_violations(package: Package) -> Iterator[Violation]:
    """Yield what the interposer, or a die's side or exposure field, cannot hold."""
    yield from _reticle(package)
    if package.topology.edges:
        yield from _shoreline(package)
        # Products come packaged: what links them is a board.
        if any(not group.chiplet.memory_bytes for group in package.dies):
            yield from _fields(package)
            yield from _cut(package)


def _reticle(package: Package) -> Iterator[Violation]:
    geometry = geometry_of(package.topology)
    for group in package.dies:
        area = group.chiplet.area_mm2
        # A die that no slot holds is told so elsewhere.
        bound = RETICLE_MM2 if above(area, geometry.slot_areas[0]) else geometry.field_mm2
        # Products come with their memory and are taken as they are, wafers included.
        if not group.chiplet.memory_bytes and above(area, bound):
            yield Violation(
                f"reticle for {group.name}",
                area,
                bound,
                "mm2",
                ("fewer cores or SRAM banks", "a lower link bandwidth", "a finer process", "two dies for one"),
            )


def _fields(package: Package) -> Iterator[Violation]:
    fields = interposer_mm2(package) / RETICLE_MM2
    allowed = technology_of(package).interposer.max_reticles
    if above(fields, allowed):
        yield Violation(
            "exposure fields of the interposer",
            fields,
            allowed,
            "fields",
            ("fewer slots", "smaller tiles (dies of a finer process)", "a technology of larger interposers"),
        )


def _shoreline(package: Package) -> Iterator[Violation]:
    side, link = geometry_of(package.topology).side, package.link
    if side is None:
        return
    demand = side.links * package.link_bandwidth_bytes_per_s / link.density_bytes_per_s_per_mm
    if above(demand, side.length_mm):
        yield Violation(
            f"{side.name} side of slot {side.slot} ({side.links} link{'s' * (side.links > 1)})",
            demand,
            side.length_mm,
            "mm",
            ("a lower link bandwidth", "a denser link class (ucie-advanced)", "larger dies"),
        )


def _cut(package: Package) -> Iterator[Violation]:
    cut, carrier = geometry_of(package.topology).cut, technology_of(package).interposer
    if cut is None:
        return
    demand = cut.links * link_wires(carrier, package.link_bandwidth_bytes_per_s)
    bound = cut.length_mm * wires_per_mm(carrier)
    if above(demand, bound):
        yield Violation(
            f"wires over the cut at {cut.axis} = {cut.at_mm:.4g} mm ({cut.links} links)",
            demand,
            bound,
            "wires",
            (
                "a lower link bandwidth",
                "more or finer layers (technology)",
                "faster wires",
                "a mesh instead of a torus",
            ),
        )


def link_wires(carrier: Interposer, bandwidth_bytes_per_s: float) -> float:
    """Return the wires of a link of a bandwidth per direction."""
    return DIRECTIONS * BITS * bandwidth_bytes_per_s / carrier.wire_bits_per_s


def wires_per_mm(carrier: Interposer) -> float:
    """Return the wires that cross a millimetre of a cut, on all layers."""
    return carrier.layers * UM_PER_MM / carrier.pitch_um
