"""Why one of two bundles or designs is faster: designs are simulated into bundles that are dropped again."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from hydra_dse.errors import Fault, InputError

if TYPE_CHECKING:
    from hydra_dse.bundle.explain import Breakdown, Comparison

REQUESTS = 200
"""Of the simulation of a design, unless another number is given."""


def explained(
    a: str | Path, b: str | Path, *, workload: str | None = None, requests: int = REQUESTS, normalise: bool = False
) -> Comparison:
    """The waterfall from A to B; all is as in `hydra_dse.api.explain`."""
    from hydra_dse.bundle.explain import compare

    return compare(_breakdown(str(a), workload, requests), _breakdown(str(b), workload, requests), normalise)


def _breakdown(ref: str, workload: str | None, requests: int) -> Breakdown:
    from hydra_dse.bundle.explain import read_breakdown
    from hydra_dse.studies.run_references import calibration_for, run_and_identity

    if Path(ref).is_dir():
        return read_breakdown(ref)
    if workload is None and run_and_identity(ref) is None:
        raise InputError(Fault(f"{ref!r} is no folder of a bundle; a design needs --workload"))
    from hydra_dse.studies.bundles import TraceOptions, simulate_into
    from hydra_dse.studies.design_simulation import DesignSimulation

    with tempfile.TemporaryDirectory() as folder:
        calibration = calibration_for(ref, None)
        run = DesignSimulation(ref, workload, calibration=calibration, requests=requests, replications=1)
        evaluation = simulate_into(run, Path(folder) / "bundle", TraceOptions())
        if not evaluation.feasible:
            raise InputError(Fault(f"{ref} is infeasible: {evaluation.violations[0]}"))
        return replace(read_breakdown(Path(folder) / "bundle"), label=ref)
