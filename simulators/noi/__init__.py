"""The network on the interposer in events: counted bytes on links, and resources shared as fluids."""

from __future__ import annotations

from simulators.noi.fluid import FluidProcessor, Job, Processor, SoloProcessor
from simulators.noi.sharing import fair_speeds

__all__ = ["FluidProcessor", "Job", "Processor", "SoloProcessor", "fair_speeds"]
