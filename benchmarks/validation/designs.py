"""Saturation rates of hydra-24 designs by simulation, kept by design: what rankings and selections are judged with.

All designs of a model and workload get the same requests (common random numbers).
"""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.validation import placed
from benchmarks.validation.placed import PlacedCase
from benchmarks.validation.simulate import Effort, half_width, saturation
from benchmarks.validation.store import RESULTS, append_row
from hydra_dse.config import load_model
from hydra_dse.design.space import Point
from hydra_dse.estimator import estimate_designs
from hydra_dse.model.summary import summarise
from hydra_dse.placement import place_design
from hydra_dse.rng import derive
from hydra_dse.workload import Renewal

FloatArray = NDArray[np.float64]

PARAMETERS = ("hbm", "Ap", "Ad", "Mp", "Md", "link_gb_per_s", "max_batch")
COLUMNS = ("model", "workload", *PARAMETERS, "slots", "saturation_requests_per_s", "half")
EFFORT = Effort(500, 500, 2, 1_000, 2, 400)
Key = tuple[str, str, tuple[int, ...]]


@dataclass(frozen=True)
class Study:
    """A model under the lengths of a workload."""

    model: str
    workload: str

    def case(self, point: Point) -> PlacedCase:
        """A design of the study; all share their name, and so their random numbers."""
        named = tuple((name, float(point[name])) for name in PARAMETERS)
        return PlacedCase("saturation", self.model, self.workload, named, *placed.SERVING[0], Renewal(1.0), 0.5)

    def key(self, point: Point) -> Key:
        """What its result is stored by."""
        return self.model, self.workload, tuple(int(point[name]) for name in PARAMETERS)


def path(folder: Path = RESULTS) -> Path:
    """The file of all results."""
    return folder / "designs.csv"


def key_of(row: Mapping[str, str]) -> Key:
    """The key that a stored row has."""
    return row["model"], row["workload"], tuple(int(row[name]) for name in PARAMETERS)


@cache
def slots_digest(key: Key) -> str:
    """A short name for where the dies and stacks of a design are placed today."""
    model, workload, values = key
    case = Study(model, workload).case(dict(zip(PARAMETERS, values, strict=True)))
    return hashlib.sha256(repr(placed.slots_of(case)).encode()).hexdigest()[:8]


def current(path: Path) -> Iterator[tuple[Key, dict[str, str]]]:
    """The stored rows of designs that are placed as they were when simulated; none where the file is not there."""
    if not path.exists():
        return
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            key = key_of(row)
            if row["slots"] == slots_digest(key):
                yield key, row


def known(folder: Path = RESULTS) -> dict[Key, tuple[float, float]]:
    """Saturation rates and relative half-widths by design; a design that serves nothing has 0."""
    return {key: (float(row["saturation_requests_per_s"]), float(row["half"])) for key, row in current(path(folder))}


def simulate_missing(study: Study, points: Sequence[Point], folder: Path = RESULTS) -> None:
    """Simulate the designs that have no result yet; one without an estimate serves nothing."""
    done = known(folder)
    missing = list({study.key(point): point for point in points if study.key(point) not in done}.values())
    if not missing:
        return
    for point, guess in zip(missing, estimates(study, missing).tolist(), strict=True):
        case = study.case(point)
        rates = np.zeros(EFFORT.saturation_runs)
        if guess > 0.0:
            rates = saturation(case, partial(placed.serve_placed, case), EFFORT)
        _append(study.key(point), rates, folder)


def _append(key: Key, rates: FloatArray, folder: Path) -> None:
    model, workload, values = key
    append_row(
        path(folder),
        COLUMNS,
        [model, workload, *values, slots_digest(key), f"{rates.mean():.6g}", f"{half_width(rates):.3g}"],
    )


def random_points(count: int, seed: int, *keys: object) -> list[Point]:
    """Different points of the space, drawn by seed; the first of a longer draw are those of a shorter one."""
    points = list(placed.space().points())
    order = derive(seed, "points", *keys).permutation(len(points))
    return [points[index] for index in order[:count].tolist()]


def estimates(study: Study, points: Sequence[Point]) -> FloatArray:
    """Estimated saturation rates, 0 where a design serves nothing."""
    space, model = placed.space(), load_model(study.model)
    designs = [place_design(space.build(point), model, 0)[0] for point in points]
    workload = placed.workload_of(study.workload, study.model)
    table = estimate_designs(designs, workload, placed.calibration(), percentiles=False)
    none = np.zeros(len(points))  # where no design at all serves, the table has no such column
    return np.nan_to_num(table.metrics.get("saturation_requests_per_s", none))


def roofline(study: Study, points: Sequence[Point]) -> FloatArray:
    """Saturation rates of a plain roofline: peak FLOPs of all dies, and peak bandwidth of all stacks in decode."""
    model = load_model(study.model)
    summary = summarise(model)
    lengths = placed.workload_of(study.workload, study.model).classes[0].lengths.points()
    prompt, output = lengths.mean(lengths.prompt_tokens), lengths.mean(lengths.output_tokens)
    found = []
    for point in points:
        package = placed.space().build(point).package
        flops = sum(group.count * group.chiplet.matmul_flops_per_s for group in package.dies)
        bandwidth = sum(group.count * group.stack.bandwidth_bytes_per_s for group in package.memories)
        batch = float(point["max_batch"])
        per_sequence = summary.kv_bytes_per_token * (prompt + output / 2) + 2.0 * summary.state_bytes_per_sequence
        decode_s = output * (summary.weight_bytes / batch + per_sequence) / bandwidth
        compute_s = 2.0 * summary.active_parameters * (prompt + output) / flops
        found.append(1.0 / max(decode_s, compute_s))
    return np.array(found)
