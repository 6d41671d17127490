"""How much of the best saturation rate the estimator's picks recover, beside random draws and a plain roofline.

The best is that of all simulated designs: the estimator's and the roofline's 16 of a pool, and random ones.  HYDRA
(arXiv 2608.19395) states 0.929 with 64 picks.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.validation.designs import (
    PARAMETERS,
    Key,
    Study,
    estimates,
    known,
    random_points,
    roofline,
    simulate_missing,
)
from benchmarks.validation.store import RESULTS
from hydra_dse.design.space import Point
from hydra_dse.rng import derive

FloatArray = NDArray[np.float64]

SEED = 41_2026
PICKS = 16
STUDIES = tuple(
    Study(model, workload)
    for model in ("nemotron-h-8b", "zamba2-7b", "bamba-9b")
    for workload in ("hydra-chat", "hydra-longwriter")
)
POOL, RANDOM = 17_040, 200
SUBSPACE = {"Ap": 3, "Ad": 3}
"""The subspace that is simulated in full: all designs with these counts."""


def picks(study: Study, pool: list[Point]) -> tuple[list[Point], list[Point]]:
    """The best of a pool by the estimator and by the roofline."""
    best = np.argsort(-estimates(study, pool), kind="stable")[:PICKS]
    plain = np.argsort(-roofline(study, pool), kind="stable")[:PICKS]
    return [pool[index] for index in best.tolist()], [pool[index] for index in plain.tolist()]


def subspace() -> list[Point]:
    """The points of the subspace."""
    points = random_points(POOL, SEED, "pool")
    return [point for point in points if all(point[name] == value for name, value in SUBSPACE.items())]


def run(study: Study, pool: int = POOL, random: int = RANDOM, exhaustive: bool = True, folder: Path = RESULTS) -> None:
    """Simulate what is missing of a study; its picks are kept beside the results."""
    mine, plain = picks(study, random_points(pool, SEED, "pool"))
    _write(study, pool, {"estimator": mine, "roofline": plain}, folder)
    simulate_missing(study, mine, folder)
    simulate_missing(study, plain, folder)
    simulate_missing(study, random_points(random, SEED, "random"), folder)
    if exhaustive:
        simulate_missing(study, subspace(), folder)


def _path(study: Study, folder: Path) -> Path:
    return folder / f"picks-{study.model}-{study.workload}.csv"


def _write(study: Study, pool: int, chosen: dict[str, list[Point]], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with _path(study, folder).open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("by", "pool", *PARAMETERS))
        for by, points in chosen.items():
            writer.writerows((by, pool, *study.key(point)[2]) for point in points)


def _read(study: Study) -> dict[str, list[Key]]:
    """The picks by who chose them, and by `"pool"` one entry for each design picked from."""
    found: dict[str, list[Key]] = {}
    if _path(study, RESULTS).exists():
        with _path(study, RESULTS).open(newline="") as file:
            for row in csv.DictReader(file):
                key = (study.model, study.workload, tuple(int(row[name]) for name in PARAMETERS))
                found.setdefault(row["by"], []).append(key)
                found.setdefault(f"pool {row['pool']}", [])
    return found


def chance(rates: FloatArray, draws: int = 2000) -> float:
    """Mean of the best of 16 random draws."""
    rng = derive(SEED, "chance")
    taken = np.array([rng.choice(rates, PICKS, replace=False).max() for _ in range(draws)])
    return float(taken.mean())


def selection_section() -> str:
    """The part of the page, empty where nothing is stored."""
    lines = [line for study in STUDIES for line in _lines(study)]
    if not lines:
        return ""
    columns = "| model | lengths | picked from | random | in all | estimator's 16 | roofline's 16 | 16 random draws |"
    head = (
        "`python -m benchmarks.validation selection` adds what is missing of three models, two workloads, 200 random",
        "designs and a subspace in full.  The best is that of all designs simulated; HYDRA states 0.929 with 64 picks.",
        "",
        columns,
        "|---" * 8 + "|",
    )
    whole = [line for study in STUDIES for line in _whole(study)]
    return "\n".join(["## Selection: share of the best saturation rate", "", *head, *lines, "", *whole])


def _whole(study: Study) -> list[str]:
    """What picks from the subspace alone recover of its best, which is known; nothing unless all of it is simulated."""
    done, points = known(), subspace()
    if not all(study.key(point) in done for point in points):
        return []
    rates = np.array([done[study.key(point)][0] for point in points])
    guesses = [ask(study, points) for ask in (estimates, roofline)]
    best = [rates[np.argsort(-guess, kind="stable")[:PICKS]].max() / rates.max() for guess in guesses]
    first = rates[int(np.argmax(guesses[0]))] / rates.max()
    fixed = " and ".join(f"{value} of {name}" for name, value in SUBSPACE.items())
    return [
        f"Of the {len(points)} designs with {fixed}, all simulated ({study.model}, {study.workload}), the estimator's",
        f"16 reach {best[0]:.3f} of the best, its first alone {first:.3f}, the roofline's 16 {best[1]:.3f}, 16 random",
        f"draws {chance(rates) / rates.max():.3f} in the mean.",
        "",
    ]


def _lines(study: Study) -> list[str]:
    """The row of a study, if its picks and enough random designs are simulated."""
    done, chosen = known(), _read(study)
    random = [done[study.key(p)][0] for p in random_points(RANDOM, SEED, "random") if study.key(p) in done]
    rates = {by: [done[key][0] for key in keys if key in done] for by, keys in chosen.items()}
    if len(random) < PICKS or not rates.get("estimator") or not rates.get("roofline"):
        return []
    every = [rate for key, (rate, _) in done.items() if key[:2] == (study.model, study.workload)]
    shares = [max(rates[by]) / max(every) for by in ("estimator", "roofline")]
    shares.append(chance(np.array(random)) / max(every))
    [pool] = [by.removeprefix("pool ") for by in chosen if by.startswith("pool ")]
    found = " | ".join(f"{share:.3f}" for share in shares)
    return [f"| {study.model} | {study.workload} | {pool} | {len(random)} | {len(every)} | {found} |"]
