"""RapidChiplet: its input files as JSON (github.com/spcl/rapidchiplet; P. Iff et al., arXiv 2311.06081).

Keys that are tuples there are written `__tuple__:[…]`, as its reader expects.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence

from hydra_dse.hardware.technology import Technology
from hydra_dse.interchange.layout import Layout, Part
from hydra_dse.physical import technology_of

_GAP_MM = 0.1  # between neighbouring dies: its checks want rectangles that do not touch
_POWER_BUMPS = 0.5
_PITCH_MM = 0.045
_PHY_SHARE = 0.45  # of a hop's latency, each side
_FILES = {
    "technologies": "technologies.json",
    "chiplets": "chiplets.json",
    "placement": "placement.json",
    "topology": "topology.json",
    "packaging": "packaging.json",
    "routing_table": "routing_table.json",
    "traffic_by_unit": "traffic_by_unit.json",
    "traffic_by_chiplet": "traffic_by_chiplet.json",
}


def rapidchiplet_files(layout: Layout) -> dict[str, str]:
    """The design file, the eight files it names, a script and a README."""
    ports = [layout.neighbours(index) for index in range(len(layout.parts))]  # one PHY for each
    technology = technology_of(layout.package)
    pitch, traffic = _pitch(layout, ports), _traffic(layout)
    data: dict[str, object] = {
        "technologies": _technologies(layout, technology),
        "chiplets": {
            part.name: _chiplet(part, layout, ports[index], pitch) for index, part in enumerate(layout.parts)
        },
        "placement": {"chiplets": [_placed(part) for part in layout.parts], "interposer_routers": []},
        "topology": [
            {"ep1": _end(a, ports[a].index(b)), "ep2": _end(b, ports[b].index(a))} for a, b in layout.edges
        ],
        "packaging": _packaging(pitch, technology),
        "routing_table": {"type": "default", "table": _table(layout)},
        "traffic_by_unit": {_key([_tuple(a, 0), _tuple(b, 0)]): share for (a, b), share in traffic.items()},
        "traffic_by_chiplet": {_tuple(a, b): share for (a, b), share in traffic.items()},
    }  # fmt: skip
    design = {"design_name": layout.name, **_FILES, "trace": "none", "booksim_config": "none"}
    return {
        "design.json": _text(design),
        **{_FILES[name]: _text(content) for name, content in data.items()},
        "run.sh": "#!/bin/sh\n# RAPIDCHIPLET: a checkout of github.com/spcl/rapidchiplet\n"
        'cd "$(dirname "$0")" && mkdir -p results && PYTHONPATH="$RAPIDCHIPLET" '
        'python3 "$RAPIDCHIPLET/rapidchiplet.py" -df design.json -rf results -as -ps -ls -c -l -t\n',
        "README.md": _readme(layout),
    }


def _text(content: object) -> str:
    return json.dumps(content, indent=1) + "\n"


def _key(items: Sequence[object]) -> str:
    return "__tuple__:" + json.dumps(list(items))


def _tuple(*items: object) -> str:
    return _key(items)


def _node(index: int) -> str:
    return _tuple("chiplet", index)


def _bits(layout: Layout) -> float:
    """Bits per cycle of a link, both directions together."""
    return 2 * 8 * layout.link_bytes_per_cycle


def _pitch(layout: Layout, ports: Sequence[Sequence[int]]) -> float:
    """The pitch at which the bumps of every die's PHYs fit, at most `_PITCH_MM`."""
    fitting = [
        math.sqrt((1 - _POWER_BUMPS) * _area(part) / (len(own) * (_bits(layout) + 1)))
        for part, own in zip(layout.parts, ports, strict=True)
        if own
    ]
    return min([_PITCH_MM, *fitting])


def _area(part: Part) -> float:
    return (part.width_mm - _GAP_MM) * (part.height_mm - _GAP_MM)


def _chiplet(part: Part, layout: Layout, ports: Sequence[int], pitch: float) -> dict[str, object]:
    share = (math.floor(_bits(layout)) + 0.5) * pitch**2 / ((1 - _POWER_BUMPS) * _area(part))
    return {
        "dimensions": {"x": part.width_mm - _GAP_MM, "y": part.height_mm - _GAP_MM},
        "type": "memory" if part.memory else "compute",
        "phys": [{**_phy(part, layout.parts[other]), "fraction_bump_area": share} for other in ports],
        "fraction_power_bumps": _POWER_BUMPS,
        "technology": "memory" if part.memory else "logic",
        "power": part.power_w,
        "relay": part.relays,
        "internal_latency": 1,
        "unit_count": 1,
    }


def _phy(part: Part, other: Part) -> dict[str, float]:
    """The point of a die's edge that faces a neighbour."""
    width, height = part.width_mm - _GAP_MM, part.height_mm - _GAP_MM
    dx, dy = other.x_mm - part.x_mm, other.y_mm - part.y_mm
    stretch = max(abs(dx) / (width / 2), abs(dy) / (height / 2))
    return {
        "x": min(max(width / 2 + dx / stretch, 0.0), width),
        "y": min(max(height / 2 + dy / stretch, 0.0), height),
    }


def _placed(part: Part) -> dict[str, object]:
    left, bottom = part.x_mm - (part.width_mm - _GAP_MM) / 2, part.y_mm - (part.height_mm - _GAP_MM) / 2
    return {"position": {"x": left, "y": bottom}, "rotation": 0, "name": part.name}


def _end(part: int, port: int) -> dict[str, object]:
    return {"type": "chiplet", "outer_id": part, "inner_id": port}


def _table(layout: Layout) -> dict[str, dict[str, object]]:
    """Next hop of every pair that a route joins."""
    count = range(len(layout.parts))
    return {
        _node(here): {
            _node(target): {"__tuple__": True, "items": ["chiplet", following]}
            for target in count
            if target != here and (following := layout.next_part(here, target)) >= 0
        }
        for here in count
    }


def _traffic(layout: Layout) -> dict[tuple[int, int], float]:
    """Share of all bytes between parts that a route joins."""
    total = float(layout.traffic.sum()) or 1.0
    return {
        (a, b): float(layout.traffic[a, b]) / total
        for a in range(len(layout.parts))
        for b in range(len(layout.parts))
        if a != b and layout.traffic[a, b] > 0 and layout.next_part(a, b) >= 0
    }


def _technologies(layout: Layout, technology: Technology) -> dict[str, object]:
    phy = max(1, round(_PHY_SHARE * layout.hop_cycles))
    radius = technology.wafer.diameter_mm / 2
    nodes = [group.chiplet.technology_nm for group in layout.package.dies]
    process = technology.process(nodes[0]) if nodes else None
    logic = {
        "phy_latency": phy,
        "wafer_radius": radius,
        "wafer_cost": process.wafer_usd if process else technology.interposer.wafer_usd,
        "defect_density": (process.defects_per_cm2 if process else technology.interposer.defects_per_cm2) / 100,
    }
    carrier = {
        "phy_latency": phy,
        "wafer_radius": radius,
        "wafer_cost": technology.interposer.wafer_usd,
        "defect_density": technology.interposer.defects_per_cm2 / 100,
    }
    return {"logic": logic, "memory": logic, "interposer": carrier}


def _packaging(pitch: float, technology: Technology) -> dict[str, object]:
    return {
        "link_routing": "manhattan",
        "link_latency_type": "constant",
        "link_latency": 1,
        "link_power_type": "constant",
        "link_power": 0.0,
        "packaging_yield": technology.interposer.bond_yield,
        "bump_pitch": pitch,
        "non_data_wires": 0,
        "is_active": False,
        "latency_irouter": 0,
        "power_irouter": 0,
        "has_interposer": True,
        "interposer_technology": "interposer",
    }


def _readme(layout: Layout) -> str:
    return f"""# {layout.name} for RapidChiplet

`RAPIDCHIPLET=<checkout> ./run.sh` computes its summaries of area, power, links, cost and latency. A cycle is
1 ns; powers: {layout.conditions}. Traffic is one served request of 1,024 prompt and 256 output tokens.

What RapidChiplet does otherwise: a die is its slot less a gap, its yield is 1/(1 + D·A), a memory stack is priced as a
die of the first process, a link's bandwidth is what bumps give (their pitch is chosen so that it is ours).
"""
