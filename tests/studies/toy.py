"""A small space with a closed-form scorer, importable by spawned workers and by subprocesses of tests."""

from __future__ import annotations

import hashlib
import os
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hydra_dse.design.experiment import Bound, Experiment, SearchSettings
from hydra_dse.design.nouns import Design
from hydra_dse.design.space import Parameter, Point, SearchSpace
from hydra_dse.hardware.calibration import Calibration, CalibrationSet
from hydra_dse.results import Violation
from hydra_dse.search.scores import ScoreTable
from hydra_dse.workload import Workload, fixed, poisson
from hydra_dse.workload.nouns import RequestClass

WORKLOAD = Workload("toy", (), poisson(2.0), (RequestClass("all", fixed(10, 10)),))
"""The toy scorer does not look at it."""
CALIBRATION = CalibrationSet(Calibration("toy", {}, {}, 0.0, 0.0))
OBJECTIVES = ("saturation_tokens_per_s", "ttft_mean_s")


def complete(point: Point) -> Point | None:
    """The dies that are neither fast nor slow are memory: at least one."""
    memory = 12 - int(point["fast"]) - int(point["slow"])
    return {**point, "memory": memory} if memory >= 1 else None


def no_build(point: Point) -> Design:
    raise NotImplementedError("the toy space is scored by its points")


def toy_space(**changes: object) -> SearchSpace:
    parameters = (
        Parameter("fast", tuple(range(1, 11))),
        Parameter("slow", tuple(range(1, 11))),
        Parameter("homes", ("aligned", "interleaved")),
        Parameter("batch", (1, 4, 16), inner=True),
        Parameter("width", (1.0, 2.5), inner=True),
    )
    space = {"name": "toy", "parameters": parameters, "complete": complete, "build": no_build, "derived": ("memory",)}
    return SearchSpace(**(space | changes))  # type: ignore[arg-type]


@dataclass(frozen=True)
class ToyScorer:
    """Throughput grows with dies and batch, delay with batch and a rugged term; `nothing` breaks a limit always."""

    nothing: bool = False
    pause_s: float = 0.0

    def __call__(self) -> ToyScorer:
        return self

    def score(self, points: Sequence[Point]) -> ScoreTable:
        time.sleep(self.pause_s)
        column = {
            name: np.array([float(point[name]) for point in points])
            for name in ("fast", "slow", "memory", "batch", "width")
        }
        rough = np.array([_rough(point) for point in points])
        rate = np.minimum(column["fast"] * column["width"], 2 * column["memory"]) * column["batch"] ** 0.5 / rough
        delay = 1 / column["slow"] + 0.01 * column["batch"] + 0.05 * column["width"] * rough
        power = 10 * column["fast"] * column["width"] + column["slow"]
        limit = 0.0 if self.nothing else 150.0
        violations = tuple(
            (Violation("power", float(value), limit, "W", ("fewer fast dies",)),) if value > limit else ()
            for value in power
        )
        metrics = {"saturation_tokens_per_s": rate, "ttft_mean_s": delay, "power_w": power}
        return ScoreTable(tuple(identity(point) for point in points), metrics, violations)


@dataclass(frozen=True)
class DeadlyScorer:
    """Dies at `deaths` of its calls, counted by files in a folder; then scores as the toy scorer does."""

    folder: str
    deaths: int

    def __call__(self) -> DeadlyScorer:
        return self

    def score(self, points: Sequence[Point]) -> ScoreTable:
        died = len(list(Path(self.folder).iterdir()))
        if died < self.deaths:
            (Path(self.folder) / str(died)).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return ToyScorer().score(points)


def _rough(point: Point) -> float:
    text = repr((point["fast"], point["slow"], point["homes"]))
    return 1 + 0.1 * int(hashlib.sha256(text.encode()).hexdigest()[:4], 16) / 0xFFFF


def identity(point: Point) -> str:
    return hashlib.sha256(repr(tuple(point.items())).encode()).hexdigest()[:12]


def toy_experiment(
    trials: int = 150,
    sampler: str = "nsga2",
    seed: int = 3,
    bounds: tuple[Bound, ...] = (),
    space: SearchSpace | None = None,
    resolved: Mapping[str, object] | None = None,
) -> Experiment:
    search = SearchSettings(sampler=sampler, trials=trials, population=8, seed=seed)
    written = {"name": "toy", "search": {"sampler": sampler, "trials": trials, "seed": seed}}
    return Experiment(
        name="toy",
        workload=WORKLOAD,
        space=space or toy_space(),
        objectives=OBJECTIVES,
        calibration=CALIBRATION,
        bounds=bounds,
        search=search,
        resolved=resolved or written,
    )
