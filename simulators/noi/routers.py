"""Routers and links of the flit model, and what is measured in it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class FlitParameters:
    """What a router and a link are made of.

    Attributes:
        vcs, buffer_flits: virtual channels of a link, and flits each of them buffers.
        router_cycles, link_cycles: from the arrival of a flit at a router to its departure, and from there to the next
            router; credits travel as long as flits.
        endpoint_cycles: from the node to its router and back, together.
        packet_flits: length of a packet.
        ports: of a node into its router and out of it.
    """

    vcs: int = 4
    buffer_flits: int = 16
    router_cycles: int = 3
    link_cycles: int = 25
    endpoint_cycles: int = 3
    packet_flits: int = 1
    ports: int = 4


@dataclass(frozen=True, eq=False)
class FlitRun:
    """What was measured, one entry per copy of the network.

    Attributes:
        latency_cycles: mean from the creation of a packet to the arrival of its last flit, of the packets created in
            the window that arrived before the end of the run.
        accepted, offered: flits per cycle in the window, all nodes.
        left_behind: share of the packets created in the window that had not arrived at the end of the run.
    """

    latency_cycles: FloatArray
    accepted: FloatArray
    offered: FloatArray
    left_behind: FloatArray


def zero_load_cycles(hops: FloatArray | float, parameters: FlitParameters) -> FloatArray | float:
    """Latency of a packet alone over so many links."""
    p = parameters
    return p.endpoint_cycles + (hops + 1.0) * p.router_cycles + hops * p.link_cycles + p.packet_flits - 1.0
