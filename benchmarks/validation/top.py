"""The best tenth of random designs, simulated often enough to tell them apart: does the estimator order them too?

Run `r` serves the same requests on every design of a batch limit (common random numbers), so that two designs differ by
the mean of their runs' log ratios; `pairs_apart` takes that interval or those of the two designs alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from benchmarks.validation import designs, placed
from benchmarks.validation.designs import PARAMETERS, Key, Study
from benchmarks.validation.simulate import Effort, half_width, saturation
from benchmarks.validation.store import RESULTS, append_row
from hydra_dse.design.space import Point

FloatArray = NDArray[np.float64]

SHARE = 0.1
RUNS = 6
EFFORT = Effort(500, 500, 2, 1_000, RUNS, 1_000)
COLUMNS = ("model", "workload", *PARAMETERS, "slots", *(f"run_{number}" for number in range(RUNS)))


def best(study: Study, points: Sequence[Point], folder: Path = RESULTS) -> list[Point]:
    """The best tenth of the points by the short runs, at least ten of them."""
    done = designs.known(folder)
    found = [point for point in points if done.get(study.key(point), (0.0, 0.0))[0] > 0.0]
    found.sort(key=lambda point: -done[study.key(point)][0])
    return found[: max(int(np.ceil(SHARE * len(points))), 10)]


def run(study: Study, points: Sequence[Point], folder: Path = RESULTS) -> None:
    """Simulate those of the best tenth that have no long runs yet."""
    done = known(folder)
    for point in best(study, points, folder):
        if study.key(point) in done:
            continue
        case = study.case(point)
        _append(study.key(point), saturation(case, partial(placed.serve_placed, case), EFFORT), folder)


def known(folder: Path = RESULTS) -> dict[Key, FloatArray]:
    """Saturation rates by design, one per run."""
    return {
        key: np.array([float(row[f"run_{number}"]) for number in range(RUNS)])
        for key, row in designs.current(folder / "top.csv")
    }


def _append(key: Key, rates: FloatArray, folder: Path) -> None:
    model, workload, values = key
    append_row(
        folder / "top.csv",
        COLUMNS,
        [model, workload, *values, designs.slots_digest(key), *(f"{rate:.6g}" for rate in rates)],
    )


def kendall(rates: FloatArray, estimated: FloatArray, paired: bool) -> tuple[float, int]:
    """Kendall's τ over the pairs that simulation tells apart at 95 %, and how many these are.

    Args:
        rates: simulated, shape (designs, runs); estimated: shape (designs,).
        paired: by the mean log ratio over runs; otherwise where the two designs' own intervals do not touch.
    """
    means = rates.mean(axis=1)
    widths = np.array([half_width(row) for row in rates]) * means
    quantile = float(stdtrit(rates.shape[1] - 1, 0.975)) / float(np.sqrt(rates.shape[1]))
    agree = pairs = 0
    for i in range(len(rates)):
        for j in range(i):
            ratios = np.log(rates[i] / rates[j])
            gap, half = means[i] - means[j], widths[i] + widths[j]
            if paired:
                gap, half = float(ratios.mean()), quantile * float(ratios.std(ddof=1))
            if abs(gap) > half:
                pairs += 1
                agree += int(np.sign(gap) * np.sign(estimated[i] - estimated[j]))
    return (agree / pairs if pairs else float("nan")), pairs


def row(study: Study, points: Sequence[Point], folder: Path = RESULTS) -> str:
    """Cells of a study: designs, spread, then pairs told apart and τ, by own intervals and paired."""
    done = known(folder)
    chosen = [point for point in best(study, points, folder) if study.key(point) in done]
    if len(chosen) < 5:
        return "– | – | – | –"
    rates = np.array([done[study.key(point)] for point in chosen])
    guess = designs.estimates(study, chosen)
    means = rates.mean(axis=1)
    cells = [f"{len(chosen)}", f"{100.0 * (means.max() / means.min() - 1.0):.0f} %"]
    for paired in (False, True):
        value, pairs = kendall(rates, guess, paired)
        cells.append(f"{value:.3f} of {pairs}" if pairs else "none apart")
    return " | ".join(cells)
