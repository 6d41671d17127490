"""The page `docs/validation.md`, written from the stored runs and the estimator as it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from benchmarks.validation import targets
from benchmarks.validation.errors import Comparison, band_name, comparisons, coverage, table
from benchmarks.validation.max_rates import max_rate_section
from benchmarks.validation.plots import errors_by_load
from benchmarks.validation.ranking import ranking_section
from benchmarks.validation.replays import replay_section
from benchmarks.validation.selection import selection_section

DOCS = Path(__file__).resolve().parents[2] / "docs"
PLOTTED = ("saturation_requests_per_s", "ttft_mean_s", "tpot_mean_s", "e2e_mean_s")
FAILURE = 0.25
HOW_TO_READ = (
    "Cells: median / 90th percentile of the absolute error in % (median of the signed error), and how many count."
)

INTRODUCTION = """# Validation

How far estimates are from simulation, on configurations that no formula was made on.  This page is written by
`python -m benchmarks.validation report` from stored runs (`benchmarks/validation/results`), with the estimator as it
is; `python -m benchmarks.validation simulate test` (or another set) adds the runs that are missing.

- **Queueing**: both sides are given the same iteration times in closed form (`benchmarks/validation/system.py`), so
  that batching, queueing and memory are compared and nothing else.
- **Placed designs**: designs of `hydra-24`, each side with its own iteration times: what a user meets.

A configuration is drawn by seed: engines (weights read in 2 to 15 ms, compute-bound from 80 to 500 tokens, KV 4 to
50 ns a token, state up to 10 µs a sequence), batch limits of 16 to 256, budgets of 256 to 2,048 tokens, memory that
holds 0.3 to 0.9 of the batch in three of ten, prompts of mean 100 to 2,000 (CV 0.4 to 1.5), outputs of mean 40 to 500
(CV 0.3 to 1.2), arrivals Poisson, gamma (CV 0.5 to 3), regular and in two phases.  The load is offered over simulated
saturation rate.  Formulas and interval widths were set on `tuning`, `few-tuning` (2 to 16 slots) and `placed-tuning`
(placed designs); `test` and `placed-test` are disjoint from them by seed.

Runs have exactly the mean rate asked for and lengths stratified over their distribution; they are repeated until the
95 % interval over replications is within ±5 % for every compared metric, or would not be with all requests there may
be (queueing: 5 million, at most 500,000 a replication).  A metric whose interval is wider does not count.  Long
queueing runs are made by `benchmarks/validation/engine.c`, which serves every request at the same dates as
`simulators.serving`, to the last bit (`tests/validation`).
"""


def page(plots: Path = DOCS) -> str:
    """The whole page; figures are written into a folder."""
    parts = [INTRODUCTION, _queueing(plots), _shortest(), _placed(plots), replay_section()]
    parts += [ranking_section(), max_rate_section(), selection_section()]
    return "\n".join(part.rstrip("\n") + "\n" for part in parts if part)


def _queueing(plots: Path) -> str:
    rows = comparisons("test")
    errors_by_load(rows, PLOTTED, plots / "validation-queueing.svg")
    count = len({row.name for row in rows})
    lines = [
        f"## Queueing: {count} configurations of the test set",
        "",
        *targets.table(rows),
        "",
        targets.ninth(rows),
        "",
    ]
    lines += ["![Errors by load](validation-queueing.svg)", "", HOW_TO_READ, ""]
    lines += _tables(rows)
    binds = {True: "memory limits the batch", False: "no memory limit"}
    lines += ["### By memory", "", *table(rows, lambda row: binds[row.memory_bound]), ""]
    lines += ["### Coverage of the 90 % intervals", "", *coverage(rows, band_name), ""]
    lines += ["### Left out", "", *_left_out(rows), "", *_failures(rows)]
    return "\n".join(lines)


def _shortest() -> str:
    rows = comparisons("shortest")
    if not rows:
        return ""
    return "\n".join(["## Shortest prompt first", "", HOW_TO_READ, "", *table(rows, band_name), ""])


def _placed(plots: Path) -> str:
    rows = comparisons("placed-test")
    if not rows:
        return ""
    errors_by_load(rows, PLOTTED, plots / "validation-placed.svg")
    names = {row.name for row in rows}
    return "\n".join(
        [
            f"## Placed designs: {len(names)} of hydra-24",
            "",
            "Nemotron-H-8B, Zamba2-7B and Bamba-9B with the lengths of `hydra-chat` and `azure-conversation`, against",
            "`simulators.serving` on the placed package.  Operator times come from one calibration on both sides; the",
            "intervals below are those of the estimator alone, without the calibration's error.",
            "Configurations 000 to 030 had been looked at when the points of short outputs and the split of waits",
            "between the pools were set, and so are not unseen by these two formulas; the later ones are.",
            "",
            *targets.table(rows),
            "",
            "![Errors by load, placed designs](validation-placed.svg)",
            "",
            HOW_TO_READ,
            "",
            *_tables(rows),
            "### Coverage, placed designs",
            "",
            *coverage(rows, band_name),
            "",
            "### Left out, placed designs",
            "",
            *_left_out(rows),
            "",
        ]
    )


def _tables(rows: Sequence[Comparison]) -> list[str]:
    lines = []
    for title, key in (
        ("By load", band_name),
        ("By policy", lambda row: row.policy),
        ("By arrivals", lambda row: row.arrivals),
    ):
        lines += [f"### {title}", "", *table(rows, key), ""]
    return lines


def _left_out(rows: Sequence[Comparison]) -> list[str]:
    """How many comparisons do not count, by metric and reason."""
    reasons = Counter((row.metric, row.left_out) for row in rows if row.left_out)
    lines = ["| metric | reason | configurations |", "|---|---|---|"]
    for (metric, reason), count in sorted(reasons.items()):
        lines.append(f"| {metric} | {reason} | {count} of {len({row.name for row in rows})} |")
    return lines


def _failures(rows: Sequence[Comparison]) -> list[str]:
    """Configurations whose mean TTFT, TPOT or E2E errs by more than a quarter."""
    worst = [
        row
        for row in rows
        if row.metric in ("ttft_mean_s", "tpot_mean_s", "e2e_mean_s") and not row.left_out and abs(row.error) > FAILURE
    ]
    lines = [f"### Means off by more than {100 * FAILURE:.0f} %", ""]
    lines += [
        "| configuration | policy | arrivals | load | memory limits | metric | error |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in sorted(worst, key=lambda row: (row.metric, -abs(row.error))):
        binds = "yes" if row.memory_bound else "no"
        head = f"| {row.name} | {row.policy} | {row.arrivals} | {row.load:.2f} | {binds} "
        lines.append(f"{head}| {row.metric} | {100 * row.error:+.0f} % |")
    return [*lines, ""]
