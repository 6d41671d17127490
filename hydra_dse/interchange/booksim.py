"""BookSim 2: an `anynet` network of the package and a configuration (github.com/booksim/booksim2)."""

from __future__ import annotations

import numpy as np

from hydra_dse.errors import Fault, InputError
from hydra_dse.interchange.layout import Layout

_WEIGHTS = 100  # BookSim draws hot destinations by whole numbers


def booksim_files(layout: Layout) -> dict[str, str]:
    """`package.anynet`, `package.config`, a script and a README.

    Every part is a router with one node; links have the latency of a hop.  Traffic goes to each node with its share
    of the design's bytes, since BookSim knows no matrix of sources and destinations.

    Raises:
        InputError: a design whose parts send each other nothing, on which BookSim would stop.
    """
    weights = _destination_weights(layout)
    hot = [index for index, weight in enumerate(weights) if weight]
    if not hot:
        raise InputError(Fault(f"{layout.name} has no traffic between its parts, so there is no network to simulate"))
    config = {
        "topology": "anynet",
        "network_file": "package.anynet",
        "routing_function": "min",
        "num_vcs": 4,
        "vc_buf_size": 16,
        "packet_size": 1,
        "credit_delay": 1,
        "routing_delay": 0,
        "vc_alloc_delay": 1,
        "sw_alloc_delay": 1,
        "st_final_delay": 1,
        "sim_type": "latency",
        "injection_rate_uses_flits": 1,
        "injection_rate": 0.01,
        "traffic": f"hotspot({{{{{_listed(hot)}}},{{{_listed([weights[index] for index in hot])}}}}})",
    }
    return {
        "package.anynet": "".join(_router_line(layout, index) for index in range(len(layout.parts))),
        "package.config": "".join(f"{key} = {value};\n" for key, value in config.items()),
        "run.sh": "#!/bin/sh\n# BOOKSIM: the BookSim 2 binary\n"
        'cd "$(dirname "$0")" && "${BOOKSIM:-booksim}" package.config\n',
        "README.md": _readme(layout),
    }


def _router_line(layout: Layout, index: int) -> str:
    links = "".join(f" router {other} {layout.hop_cycles}" for other in layout.neighbours(index))
    return f"router {index} node {index}{links}\n"


def _destination_weights(layout: Layout) -> list[int]:
    """Whole numbers in proportion to the bytes that each part receives, 0 for those that receive nothing."""
    received = layout.traffic.sum(axis=0)
    top = float(received.max(initial=0.0)) or 1.0
    return [int(np.ceil(_WEIGHTS * value / top)) for value in received.tolist()]


def _listed(values: list[int]) -> str:
    return ",".join(str(value) for value in values)


def _readme(layout: Layout) -> str:
    leaves = sum(not part.relays for part in layout.parts)
    lines = [
        f"# {layout.name} for BookSim 2",
        "",
        f"`run.sh` runs `booksim package.config`. A cycle is 1 ns; a flit is {layout.link_bytes_per_cycle:.0f} bytes,",
        f"what a link moves in a cycle after headers. A hop takes {layout.hop_cycles} cycles.",
        "",
        "Nodes:",
        "",
        *(f"- {index}: {part.name}" for index, part in enumerate(layout.parts)),
        "",
        "What BookSim does otherwise:",
        "",
        "- destinations are drawn by the share of bytes they receive, alike for every source;",
        "- `min` routing takes its own shortest paths" + (
            f"; it may pass through the {leaves} memory tiles, which our routes never do." if leaves else "."
        ),
    ]  # fmt: skip
    return "\n".join(lines) + "\n"
