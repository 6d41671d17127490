"""Time, bytes and energy of an operator on a die."""

from __future__ import annotations

from hydra_dse.operator_cost.compute import (
    DieShare,
    Work,
    activity,
    compute_time_s,
    die_energies_j,
    die_energy_j,
    sram_bytes,
    work_of,
)
from hydra_dse.operator_cost.memory import site_bandwidth, site_seconds_per_byte
from hydra_dse.operator_cost.rates import DieRates, die_rates, launch_s, rows_of, stack_rates
from hydra_dse.operator_cost.utilisation import inverse_utilisation, tiles_of

__all__ = [
    "DieRates",
    "DieShare",
    "Work",
    "activity",
    "compute_time_s",
    "die_energies_j",
    "die_energy_j",
    "die_rates",
    "inverse_utilisation",
    "launch_s",
    "rows_of",
    "site_bandwidth",
    "site_seconds_per_byte",
    "sram_bytes",
    "stack_rates",
    "tiles_of",
    "work_of",
]
