"""Which resource to double first: the same run simulated with resources scaled, one at a time and in pairs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from hydra_dse.bundle.whatif.scaling import Scale, scaled
from hydra_dse.design.nouns import Design
from hydra_dse.errors import Fault, InputError
from hydra_dse.results import Evaluation

GAINS = ("tpot_mean_s", "ttft_mean_s", "e2e_mean_s", "saturation_tokens_per_s")
"""Metrics whose gain is told; of times the gain is old over new, of rates new over old."""
HIGHER_IS_BETTER = frozenset({"saturation_tokens_per_s"})

Simulate = Callable[[Design], Sequence[Evaluation]]
"""Evaluations of a design, one a replication, with the same requests for every design."""


@dataclass(frozen=True)
class Gain:
    """How many times better a metric is, mean over replications, with a 95 % interval of the paired gains."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Sensitivity:
    """What scaling some resources together gives.

    Attributes:
        metrics: mean over replications.
        gains: by metric of `GAINS`.
    """

    scales: tuple[Scale, ...]
    metrics: Mapping[str, float]
    gains: Mapping[str, Gain]

    @property
    def label(self) -> str:
        """For tables."""
        return " and ".join(map(str, self.scales))


@dataclass(frozen=True)
class WhatIf:
    """All sensitivities of a run, the best first.

    Attributes:
        baseline: metrics of the unscaled run.
        replayed: whether the unscaled run gave what the bundle recorded; None where it recorded nothing.
    """

    baseline: Mapping[str, float]
    sensitivities: tuple[Sensitivity, ...]
    replayed: bool | None


def what_if(design: Design, scales: Sequence[Scale], simulate: Simulate, by: str, pairs: bool = True) -> WhatIf:
    """Simulate a placed design with each resource scaled, and with each pair of them.

    Args:
        design: the placed design.
        scales: of different resources.
        simulate: runs a design under the requests of the bundle.
        by: the metric whose gain decides the order.
        pairs: also scale two at a time.

    Raises:
        InputError: no resource, or one twice.
    """
    names = [scale.resource for scale in scales]
    if not names or len(set(names)) != len(names):
        raise InputError(Fault("give each resource once", file="--scale"))
    before = _checked(simulate(design))
    sets = [(scale,) for scale in scales] + (list(itertools.combinations(scales, 2)) if pairs else [])
    found = []
    for chosen in sets:
        after = _checked(simulate(scaled(design, chosen)))
        gains = {name: gain for name in GAINS if (gain := _gain(name, before, after)) is not None}
        found.append(Sensitivity(tuple(chosen), _means(after), gains))
    found.sort(key=lambda each: -(each.gains[by].mean if by in each.gains else 0.0))
    return WhatIf(_means(before), tuple(found), None)


def _checked(evaluations: Sequence[Evaluation]) -> Sequence[Evaluation]:
    for evaluation in evaluations:
        if not evaluation.feasible:
            raise InputError(Fault(f"the design is infeasible: {evaluation.violations[0]}"))
    return evaluations


def _means(evaluations: Sequence[Evaluation]) -> dict[str, float]:
    found = {}
    for name in evaluations[0].metrics:
        values = [evaluation.metrics.get(name) for evaluation in evaluations]
        known = [value for value in values if value is not None]
        if len(known) == len(values):
            found[name] = math.fsum(known) / len(known)
    return found


def _gain(name: str, before: Sequence[Evaluation], after: Sequence[Evaluation]) -> Gain | None:
    """Paired over replications: both runs of a pair have the same requests."""
    logs = []
    for first, second in zip(before, after, strict=True):
        old, new = first.metrics.get(name), second.metrics.get(name)
        if old is None or new is None or old <= 0.0 or new <= 0.0:
            return None
        logs.append(math.log(new / old) if name in HIGHER_IS_BETTER else math.log(old / new))
    mean = math.fsum(logs) / len(logs)
    if len(logs) < 2:
        return Gain(math.exp(mean), math.nan, math.nan)
    deviation = math.sqrt(math.fsum((each - mean) ** 2 for each in logs) / (len(logs) - 1))
    half = _t_quantile(len(logs) - 1) * deviation / math.sqrt(len(logs))
    return Gain(math.exp(mean), math.exp(mean - half), math.exp(mean + half))


def _t_quantile(freedom: int) -> float:
    """97.5 % quantile of Student's distribution."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, 0.975))
