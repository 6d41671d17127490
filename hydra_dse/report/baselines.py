"""What the recommended package would do with naive choices: the baselines beside a front, by the estimator.

The dies, stacks and links stay as they are; placement is dealt out in turn (HYDRA's baseline) and batches are static,
one after the other and both at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from hydra_dse.design.nouns import Design
from hydra_dse.errors import HydraError
from hydra_dse.placement import place_design
from hydra_dse.report.run import Run
from hydra_dse.search.estimating import PLACEMENT_SEED
from hydra_dse.workload import served


@dataclass(frozen=True)
class Baseline:
    """A naive variant of the recommended design.

    Attributes:
        metrics: estimates by name, NaN where unknown.
        broken: what it breaks, as text; empty where it is feasible.
    """

    name: str
    metrics: Mapping[str, float]
    broken: str


def baselines_of(run: Run) -> tuple[Baseline, ...]:
    """The baselines that differ from the recommended design; none where there is none, or no estimate of it."""
    # Several scenarios have objectives over all of them, which one estimate does not give.
    if run.recommended < 0 or run.experiment.scenarios.items:
        return ()
    design = run.design(run.recommended)
    naive = design.placement is None and design.placement_algorithm != "round_robin"
    dealt = replace(design, placement_algorithm="round_robin") if naive else design
    variants = {"round-robin placement": dealt} if naive else {}
    if design.policy.batching != "static" and design.policy.task_map == "static":
        variants["static batching"] = _static(design)
        if naive:
            variants["round-robin placement and static batching"] = _static(dealt)
    found = [_estimated(run, name, variant) for name, variant in variants.items()]
    return tuple(item for item in found if item is not None)


def _static(design: Design) -> Design:
    return replace(design, policy=replace(design.policy, batching="static"))


def _estimated(run: Run, name: str, design: Design) -> Baseline | None:
    from hydra_dse.estimator import estimate_designs

    workload, calibration = run.experiment.workload, run.experiment.calibration
    try:
        models = [kind.model for kind in served(workload)]
        placed, violations = place_design(design, models, PLACEMENT_SEED)
        if violations:
            return Baseline(name, {}, "; ".join(str(item) for item in violations))
        table = estimate_designs([placed], workload, calibration)
    except HydraError:  # a policy that has no estimate: nothing to compare with
        return None
    metrics = {key: float(values[0]) for key, values in table.metrics.items()}
    broken = "; ".join(str(item) for item in table.violations[0])
    return Baseline(name, metrics, broken) if any(np.isfinite(list(metrics.values()))) else None
