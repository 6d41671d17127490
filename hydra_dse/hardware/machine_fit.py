"""What is fitted to one chip that executes a stack in one mode: launches, shares of peak, fixed costs, allocation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

MACHINE_PARAMETERS = {
    "share": "share of the matrix peak of all given cores that the layers' FLOPs reach over a step",
    "half_width": "width at which half of that share is reached",
    "head_share": "the same for the FLOPs of the head",
    "launch": "time of a layer in a step that does not grow with the batch",
    "fp32": "speed of multiplication in fp32 over that in the chip's own format, as measured",
    "overlap": "power mean of launch and work: 1 in turn, large side by side",
    "fixed": "device time of a step outside layers and head",
    "host": "host time of a step",
    "host_layer": "host time of one more layer",
    "stream": "share of the memory bandwidth at which weights and caches stream",
    "entry": "time of one more sequence and KV head of a layer in a decode step",
    "cores": "cores that a compilation counts as all",
    "allocated": "share of them that it uses at most",
    "transport_layers": "depth from which transport between kernels limits a resident stack",
    "transport_exponent": "power of the depth with which the rate then falls below that of the kernels",
}
"""Names and meanings of what a machine fit may hold; times in seconds, widths in elements, the rest without unit."""


@dataclass(frozen=True)
class FittedValue:
    """A value with its 90 % interval.

    Attributes:
        basis: one of `hydra_dse.hardware.calibration.BASES`.
        source: the fit or figure it comes from.
    """

    value: float
    low: float
    high: float
    basis: str
    source: str


@dataclass(frozen=True)
class MachineFit:
    """Parameters by name (`MACHINE_PARAMETERS`) of a chip in an execution mode and a phase."""

    chip: str
    mode: str
    phase: str
    parameters: Mapping[str, FittedValue]

    def value(self, name: str, default: float = 0.0) -> float:
        """A parameter, or what holds where it was not fitted."""
        found = self.parameters.get(name)
        return default if found is None else found.value

    def stated(self) -> str:
        """One line: every parameter with its interval and basis."""
        parts = [
            f"{name} {each.value:.3g} [{each.low:.3g}, {each.high:.3g}] {each.basis} ({each.source})"
            for name, each in self.parameters.items()
        ]
        return f"{self.chip}, {self.mode}, {self.phase}: {'; '.join(parts)}"
