"""A placed design of hydra-24 under any policy, and its simulation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

from hydra_dse.config import load_calibration, load_model, load_space
from hydra_dse.design.evaluator import EvaluationOptions
from hydra_dse.design.nouns import Design
from hydra_dse.placement import place_design
from hydra_dse.workload import Workload
from simulators.iteration import Composition
from simulators.serving import ServingSimulator


def constant(seconds: float) -> Callable[[Composition], float]:
    return lambda _: seconds


@cache
def _placed() -> Design:
    space = load_space("hydra-24")
    point = space.complete({"hbm": 6, "Ap": 3, "Ad": 5, "Mp": 3, "link_gb_per_s": 512, "max_batch": 32})
    assert point is not None
    design, _ = place_design(space.build(point), load_model("nemotron-h-4b"), 0)
    return design


def placed(**policy: object) -> Design:
    return replace(_placed(), policy=replace(_placed().policy, **policy))


def simulate(design: Design, load: Workload, requests: int = 400, **options: object) -> dict[str, float]:
    settings = EvaluationOptions(requests=requests, replications=1, **options)  # type: ignore[arg-type]
    [found] = ServingSimulator().evaluate([design], load, load_calibration("default"), settings, 1)
    assert not found.violations
    return dict(found.metrics)
