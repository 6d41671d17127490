"""Small bundles for the tests: one design at a load that lets several sequences decode together."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hydra_dse.results import Evaluation
from hydra_dse.studies.bundles import TraceOptions, simulate_into
from hydra_dse.studies.design_simulation import DesignSimulation

SMALL = DesignSimulation(
    "hydra-24-nemotron-chat",
    "hydra-chat",
    model="nemotron-h-4b",
    requests=20,
    replications=1,
    overrides=("workload.arrivals={process: poisson, rate: 6/s}",),
)
ONE_DIE = replace(SMALL, design="h100", overrides=("workload.arrivals={process: poisson, rate: 6/s}",))


def written(
    folder: Path, run: DesignSimulation = SMALL, window: str = "4", compress: bool = False, limit: str = "32 MB"
) -> Evaluation:
    """Write a bundle and return what was measured."""
    return simulate_into(run, folder, TraceOptions(window, limit, compress))
