"""The front of a run under drawn calibrations, on the screen: of `robustness RUN` and `sweep --draws`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hydra_dse.cli.options import finite

if TYPE_CHECKING:
    from hydra_dse.studies.front_odds import FrontOdds
    from hydra_dse.studies.front_uncertainty import UncertaintyResult


def judge_front(
    run_dir: Path,
    draws: int,
    memory: float | None,
    workers: int,
    cluster: str | None,
    *,
    quiet: bool,
    as_json: bool,
) -> None:
    """Judge the front of a run and print the odds of its designs, the surest first."""
    from hydra_dse.cli.progress import StudyBar
    from hydra_dse.studies.front_uncertainty import SLOW_MEMORY, uncertainty

    with StudyBar(f"draws for {run_dir}", "draws", quiet or as_json) as bar:
        factor = SLOW_MEMORY if memory is None else memory
        result = uncertainty(run_dir, draws=draws, memory=factor, workers=workers, progress=bar, cluster=cluster)
    if as_json:
        _print_json(result)
    else:
        _print_tables(result)


def _print_json(result: UncertaintyResult) -> None:
    from hydra_dse.cli.options import print_json

    pairs = [
        {
            "objective": pair.objective,
            "better": pair.better,
            "worse": pair.worse,
            "ratio": finite(pair.ratio),
            "interval": [finite(pair.low), finite(pair.high)],
            "holds": finite(pair.holds),
            "decided": pair.decided,
        }
        for pair in result.compared
    ]
    print_json(
        {
            "run": str(result.run_dir),
            "draws": result.draws,
            "candidates": result.candidates,
            "memory": result.memory,
            "notes": list(result.notes),
            "front": [_odds(one, result) for one in result.front],
            "behind": [_odds(one, result) for one in result.behind],
            "comparisons": pairs,
        }
    )


def _odds(one: FrontOdds, result: UncertaintyResult) -> dict[str, object]:
    names = result.objectives
    return {
        "design": f"{result.run_dir}:{one.design}",
        "status": one.status,
        "p_in_front": finite(one.in_front),
        "p_feasible": finite(one.feasible),
        "p_best": dict(zip(names, map(finite, one.best), strict=True)),
        "expected_regret": finite(one.dominated_by),
        "expected_regret_by_objective": dict(zip(names, map(finite, one.regret), strict=True)),
        "values": dict(zip(names, map(finite, one.values), strict=True)),
        "values_slow_memory": dict(zip(names, map(finite, one.slow_values), strict=True)),
        "on_slow_memory_front": one.in_slow_front,
    }


def _print_tables(result: UncertaintyResult) -> None:
    from hydra_dse.cli.tables import console, heading, print_table
    from hydra_dse.results.text import number

    names = result.objectives
    columns = ["design", "P(in front)", *(f"P(best) {heading(name)}" for name in names), "expected regret"]
    columns += [heading(name) for name in names] + [f"at {result.memory:.0%} memory", "status"]
    rows = []
    for one in result.front:
        kept = "in front" if one.in_slow_front else "not in front"
        values = (number(value) for value in one.values)
        best = (f"{share:.2f}" for share in one.best)
        rows.append((one.design, f"{one.in_front:.2f}", *best, f"{one.dominated_by:.4f}", *values, kept, one.status))
    print_table(f"Front under {result.draws} drawn calibrations, {result.candidates} designs", columns, rows)
    undecided = sum(not pair.decided for pair in result.compared)
    rivals = f"{len(result.behind)} designs behind the front are in front in some draw"
    if result.behind:
        rivals += f", {result.behind[0].design} in {result.behind[0].in_front:.0%}"
    for note in result.notes:
        console().print(f"note: {note}")
    console().print(
        f"{rivals}\n{undecided} of {len(result.compared)} comparisons of two designs of the front are undecided\n"
        f"files: {result.run_dir}/front_uncertainty.csv, {result.run_dir}/comparisons.csv"
    )
