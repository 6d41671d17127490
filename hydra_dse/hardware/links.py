"""Links of a package and between packages: latency, energy, density and reach, in SI units, each with its source."""

from __future__ import annotations

import math
from dataclasses import dataclass, field


@dataclass(frozen=True)
class LinkClass:
    """The physical class of a NoI link; bandwidth itself is chosen by the design.

    Attributes:
        latency_s: one hop, both PHYs and the wire.
        joules_per_byte: energy of moving a byte over one hop.
        efficiency: payload share of the raw bandwidth (headers, CRC, retry, read requests).
        density_bytes_per_s_per_mm: bandwidth per mm of die edge, per direction.
        reach_mm: longest wire.
        phy_bytes_per_s_per_mm2: bandwidth per mm² of silicon of a port, per direction, where ports are silicon of
            their own (links between packages); infinite where the die's own recipe holds them.
    """

    name: str
    latency_s: float
    joules_per_byte: float
    efficiency: float
    density_bytes_per_s_per_mm: float
    reach_mm: float
    source: str = ""
    phy_bytes_per_s_per_mm2: float = field(default=math.inf, repr=False)


@dataclass(frozen=True)
class Fabric:
    """Links between packages: a latency and a bandwidth each.

    Attributes:
        link: class of the links; its latency counts once for each link on the way.
        bandwidth_bytes_per_s: of every link, per direction.
        links: between each two packages, or of each package to the switch.
        switched: whether all packages meet at one switch, which itself is no bottleneck.
    """

    link: LinkClass
    bandwidth_bytes_per_s: float
    links: int = 1
    switched: bool = False

    @property
    def port_mm2(self) -> float:
        """Silicon at one end of a link."""
        return self.bandwidth_bytes_per_s / self.link.phy_bytes_per_s_per_mm2
