"""HotSpot: floorplan, power trace and configuration (github.com/uvahotspot/HotSpot).

Layers, sink and ambient are those of the package's cooling.  The floorplan is a line per block: name, width, height,
left x, bottom y, in metres; the power trace names the blocks and gives a line of watts.  HotSpot wants the die covered,
so gaps become blocks without power.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from hydra_dse.hardware.technology import Cooling
from hydra_dse.interchange.layout import Layout, Part
from hydra_dse.physical import technology_of
from hydra_dse.physical.area import interposer_size_mm

Box = tuple[float, float, float, float]
_TOUCH = 1e-9
_ZERO_C_IN_K = 273.15
_MM_PER_M = 1e3


def hotspot_files(layout: Layout) -> dict[str, str]:
    """`package.flp`, `package.ptrace`, `hotspot.config`, a script and a README."""
    blocks = [(part.name, _box(part)) for part in layout.parts]
    fill = [(f"fill_{index}", box) for index, box in enumerate(_gaps([box for _, box in blocks]))]
    powers = [part.power_w for part in layout.parts] + [0.0] * len(fill)
    everything = [*blocks, *fill]
    cooling = technology_of(layout.package).cooling
    # HotSpot refuses a spreader smaller than the die layer, which is the floorplan here.
    side_mm = max(
        *interposer_size_mm(layout.package.topology), *(_MM_PER_M * max(box[1], box[3]) for _, box in everything)
    )
    names = "\t".join(name for name, _ in everything)
    return {
        "package.flp": "".join(_line(name, box) for name, box in everything),
        "package.ptrace": names + "\n" + "\t".join(f"{power:.6g}" for power in powers) + "\n",
        "hotspot.config": "".join(f"\t\t-{key}\t{value}\n" for key, value in _config(cooling, side_mm).items()),
        "run.sh": "#!/bin/sh\n# HOTSPOT: the HotSpot binary\n"
        'cd "$(dirname "$0")" && "${HOTSPOT:-hotspot}" -c hotspot.config '
        "-f package.flp -p package.ptrace -model_type grid -steady_file package.steady\n",
        "README.md": _readme(layout, sum(powers)),
    }


def _box(part: Part) -> Box:
    """Left, right, bottom, top in metres."""
    return (
        (part.x_mm - part.width_mm / 2) * 1e-3,
        (part.x_mm + part.width_mm / 2) * 1e-3,
        (part.y_mm - part.height_mm / 2) * 1e-3,
        (part.y_mm + part.height_mm / 2) * 1e-3,
    )


def _gaps(boxes: list[Box]) -> Iterator[Box]:
    """Rectangles that fill what the boxes leave free of the rectangle from the origin around them.

    Cells of the grid that all edges span; free cells of a row that touch are joined.
    """
    columns = _cuts([edge for box in boxes for edge in box[:2]])
    rows = _cuts([edge for box in boxes for edge in box[2:]])
    for bottom, top in pairwise(rows):
        start: float | None = None
        for left, right in pairwise(columns):
            taken = any(_covers(box, (left + right) / 2, (bottom + top) / 2) for box in boxes)
            if taken and start is not None:
                yield start, left, bottom, top
                start = None
            elif not taken and start is None:
                start = left
        if start is not None:
            yield start, columns[-1], bottom, top


def _cuts(edges: list[float]) -> list[float]:
    cuts = [0.0]
    for edge in sorted(edges):
        if edge - cuts[-1] > _TOUCH:
            cuts.append(edge)
    return cuts


def _covers(box: Box, x: float, y: float) -> bool:
    return box[0] < x < box[1] and box[2] < y < box[3]


def _line(name: str, box: Box) -> str:
    left, right, bottom, top = box
    return f"{name}\t{right - left:.9g}\t{top - bottom:.9g}\t{left:.9g}\t{bottom:.9g}\n"


def _config(cooling: Cooling, side_mm: float) -> dict[str, str]:
    """HotSpot's names of the layers, in SI units; spreader and sink are squares that overhang the longer side."""
    spread_m = (side_mm + 2.0 * cooling.overhang_mm) / _MM_PER_M
    ambient_k = cooling.ambient_c + _ZERO_C_IN_K
    layers = {"chip": cooling.die, "interface": cooling.tim, "spreader": cooling.spreader, "sink": cooling.sink}
    values = {f"t_{name}": layer.thickness_mm / _MM_PER_M for name, layer in layers.items()}
    values |= {f"k_{name}": layer.w_per_mk for name, layer in layers.items()}
    values |= {"s_spreader": spread_m, "s_sink": spread_m, "r_convec": cooling.sink_k_per_w}
    values |= {"ambient": ambient_k, "init_temp": ambient_k}
    return {name: f"{value:g}" for name, value in values.items()}


def _readme(layout: Layout, total_w: float) -> str:
    return f"""# {layout.name} for HotSpot

`run.sh` writes steady temperatures to `package.steady` (kelvin). Blocks are slots of the package, with
{total_w:.1f} W in all: {layout.conditions}. `fill_*` are gaps without power.

Die, interface, spreader, sink, its resistance and ambient are those of the package's cooling. What HotSpot does
otherwise: silicon without gaps where we have fill between dies, heat capacities of its own (steady temperatures do not
need them), no interposer and bumps below, no stacks of DRAM, and no leakage that follows temperature.
"""
