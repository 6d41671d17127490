"""Quality of searches: `python -m benchmarks.search_quality {large,hydra24,mid} [--out DIR] [--seeds N]`.

`large` (space large-24, 1.4e13 designs): hypervolume at equal evaluations and at equal CPU time.  `hydra24` (17,040
designs) and `mid` (1.4 million): the whole space is scored first, and the regret is the share of the true front's
hypervolume that a search with a tenth, or a hundredth, of the designs misses.  The reference points are fixed below.
Runs are files in `--out`; those that lie there are not run again.  `--table FILE` writes the comparison as CSV.
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path

for _threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_threads, "1")

import numpy as np  # noqa: E402

from benchmarks.search_quality.methods import METHODS, available  # noqa: E402
from benchmarks.search_quality.runs import Limits, Step, at_cpu, at_evaluations, read, run, write  # noqa: E402
from benchmarks.search_quality.statistics import compared  # noqa: E402
from benchmarks.search_quality.truth import Lookup, enumerate_space  # noqa: E402
from hydra_dse.config import load_experiment  # noqa: E402
from hydra_dse.placement import forget_placements  # noqa: E402
from hydra_dse.search.archive import Archive  # noqa: E402
from hydra_dse.search.estimating import EstimatorScorer  # noqa: E402
from hydra_dse.search.hypervolume import hypervolume  # noqa: E402
from hydra_dse.search.objectives import Objectives  # noqa: E402

HERE = Path(__file__).resolve().parent
BY_TIME = "ours-by-time"
"""Ours with a budget of designs that nobody reaches: what it finds in the time that the others need."""


@dataclass(frozen=True)
class Study:
    """A space to search.

    Attributes:
        experiment: bundled name or file beside this module.
        limits: evaluations and CPU seconds compared at; the reference is in the objectives' order and units.
        enumerated: whether the whole space is scored first.
    """

    experiment: str
    limits: Limits
    enumerated: bool


STUDIES = {
    "large": Study(str(HERE / "large.yaml"), Limits(250, 5.0, (1000.0, 4.0, 14_000.0)), False),
    "hydra24": Study("quickstart", Limits(1704, 0.0, (1200.0, 1.0)), True),
    "mid": Study(str(HERE / "mid.yaml"), Limits(5000, 0.0, (1200.0, 1.0)), True),
}


def runs_of(name: str, methods: list[str], seeds: int, out: Path) -> dict[str, list[list[Step]]]:
    """All runs of a study, those that are stored from their files."""
    study = STUDIES[name]
    experiment = load_experiment(study.experiment)
    scorer = None
    if study.enumerated:
        scorer = Lookup(experiment, enumerate_space(experiment, out / name / "all"))
        experiment = replace(experiment, bounds=())  # they are part of what is known
    found: dict[str, list[list[Step]]] = {}
    for seed in range(seeds):
        for method in methods:
            path = out / name / f"{method}-{seed}.csv"
            if not path.is_file():
                forget_placements()
                used, trials, limits = _settings(method, study)
                steps = run(experiment, scorer or EstimatorScorer(experiment), used, trials, seed, limits)
                write(steps, path)
                sys.stderr.write(f"{name} {method} {seed}: {steps[-1]}\n")
            found.setdefault(method, []).append(read(path))
    return found


def _settings(method: str, study: Study) -> tuple[str, int, Limits]:
    if method == BY_TIME:
        return "ours", 100_000, Limits(0, study.limits.cpu_s, study.limits.reference)
    return method, study.limits.evaluations, study.limits


def front_volume(name: str, out: Path) -> float:
    """Hypervolume of the true front of an enumerated space."""
    study = STUDIES[name]
    experiment = load_experiment(study.experiment)
    known = Lookup(experiment, out / name / "all")
    objectives = Objectives.named(experiment.objectives)
    columns = {key: known.values[:, index] for index, key in enumerate(objectives.names)}
    archive = Archive(objectives)
    archive.add([str(row) for row in range(len(known))], objectives.losses(columns), known.violation)
    natural = {key: np.array([value]) for key, value in zip(objectives.names, study.limits.reference, strict=True)}
    return hypervolume(objectives.scaled(archive.losses), objectives.scaled(objectives.losses(natural))[0])


def table(name: str, runs: dict[str, list[list[Step]]], out: Path) -> list[list[str]]:
    """Rows of the comparison: each method's mean and range, and what ours gains over it."""
    study = STUDIES[name]
    limits, whole = study.limits, front_volume(name, out) if study.enumerated else None
    rows = []
    for at in ("evaluations", "cpu") if limits.cpu_s else ("evaluations",):
        values = {
            method: [
                (at_evaluations(steps, limits.evaluations) if at == "evaluations" else at_cpu(steps, limits.cpu_s))
                / (whole or 1.0)
                for steps in each
            ]
            for method, each in runs.items()
            if method != BY_TIME or at == "cpu"
        }
        best = BY_TIME if at == "cpu" and BY_TIME in values else "ours"
        for method, found in values.items():
            row = [
                name,
                at,
                method,
                str(len(found)),
                *(f"{one:.4f}" for one in (np.mean(found), min(found), max(found))),
            ]
            if method != best and best in values:
                result = compared(values[best], found)
                row += [f"{result.gain:+.3f}", f"{result.low:+.3f}", f"{result.high:+.3f}", f"{result.p:.4f}"]
            rows.append(row)
    return rows


def main(arguments: list[str]) -> int:
    """Run what is missing and print the comparison."""
    parser = argparse.ArgumentParser(prog="benchmarks.search_quality", description=__doc__)
    parser.add_argument("study", choices=tuple(STUDIES))
    parser.add_argument("--out", type=Path, default=Path("search-quality"))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--method", action="append", choices=(*METHODS, BY_TIME))
    parser.add_argument("--table", type=Path)
    chosen = parser.parse_args(arguments)
    by_time = [BY_TIME] if STUDIES[chosen.study].limits.cpu_s else []
    methods = available(chosen.method or [*METHODS, *by_time])
    found = table(chosen.study, runs_of(chosen.study, methods, chosen.seeds, chosen.out), chosen.out)
    head = ["study", "equal", "method", "seeds", "mean", "least", "most", "ours_gains", "low", "high", "p"]
    with chosen.table.open("w", encoding="utf-8", newline="") if chosen.table else sys.stdout as stream:
        csv.writer(stream, lineterminator="\n").writerows([head, *found])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
