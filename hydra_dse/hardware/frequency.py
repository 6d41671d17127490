"""Dies at another clock: voltage follows frequency, power follows both.

With `f` the clock relative to the one a die is stated at and `v` the voltage relative to that clock's,

    v = 0.5 + 0.5·f                       rates × f, energy of an operation × v²
    static power × ((1 − s)·f·v² + s·v)   clock tree and leakage, `s` the share of leakage

so that dynamic power at full rate goes with `f·v²`.  Links keep their clock.  Assumption: the linear voltage, as logic
processes scale between about 0.7 and 1.1 of their nominal voltage; leakage in proportion to voltage, half of static
power (as in the library's technologies).
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from hydra_dse.hardware.components import Chiplet

LOWEST, HIGHEST = 0.4, 1.2
VOLTAGE_AT_REST = 0.5
LEAKAGE_SHARE = 0.5


def voltage(frequency: float) -> float:
    """Return the voltage that a clock needs, both relative to nominal."""
    return VOLTAGE_AT_REST + (1.0 - VOLTAGE_AT_REST) * frequency


@lru_cache(maxsize=1024)
def at_frequency(chiplet: Chiplet, frequency: float) -> Chiplet:
    """Return a die at a clock relative to its own; the same object at 1.

    It keeps its name: it is the same silicon.
    """
    if frequency == 1.0:
        return chiplet
    volts = voltage(frequency)
    energy = volts**2
    static = (1.0 - LEAKAGE_SHARE) * frequency * energy + LEAKAGE_SHARE * volts
    return replace(
        chiplet,
        matmul_flops_per_s=chiplet.matmul_flops_per_s * frequency,
        vector_flops_per_s=chiplet.vector_flops_per_s * frequency,
        sram_bandwidth_bytes_per_s=chiplet.sram_bandwidth_bytes_per_s * frequency,
        joules_per_flop=chiplet.joules_per_flop * energy,
        joules_per_vector_flop=chiplet.joules_per_vector_flop * energy,
        joules_per_sram_byte=chiplet.joules_per_sram_byte * energy,
        static_power_w=chiplet.static_power_w * static,
    )
