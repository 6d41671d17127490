"""`python -m benchmarks.validation COMMAND`: simulate what is missing, look at errors, write the page."""

from __future__ import annotations

import argparse
import os
from functools import partial
from pathlib import Path

for _threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_threads, "1")

from benchmarks.validation import max_rates, placed, ranking, replays, report, selection, widths  # noqa: E402
from benchmarks.validation.cases import SEEDS, cases  # noqa: E402
from benchmarks.validation.compiled import serve_compiled  # noqa: E402
from benchmarks.validation.errors import band_name, comparisons, coverage, table  # noqa: E402
from benchmarks.validation.simulate import COMPILED, FEW, SLICE, simulate  # noqa: E402
from benchmarks.validation.store import RESULTS, append, digest, load  # noqa: E402

EFFORTS = {"slice": SLICE, "few-tuning": FEW}


def run_missing(which: str, count: int | None, folder: Path) -> None:
    """Simulate the configurations of a set that have no result yet, in order."""
    known = load(which, folder)
    for case in placed.placed_cases(which, count) if which in placed.SEEDS else cases(which, count):
        if case.name in known and known[case.name][0] == digest(case):
            continue
        if isinstance(case, placed.PlacedCase):
            if not placed.fits(case):
                print(f"{case.name}: no such design: {placed.design_of(case)[1] or 'infeasible'}", flush=True)
                continue
            found = simulate(case, partial(placed.serve_placed, case), placed.EFFORT)
        else:
            found = simulate(case, partial(serve_compiled, case), EFFORTS.get(which, COMPILED))
        append(which, case, found, folder)
        worst = max(found.half, key=lambda name: found.half[name])
        print(f"{case.name} {case.policy} {case.arrival_kind} load {case.load:.2f}: ", end="")
        print(f"{found.runs} × {found.requests}, widest {worst} ±{100 * found.half[worst]:.1f} %", flush=True)


def print_errors(which: str, every: bool) -> None:
    """Tables of errors, and each configuration on a line if asked."""
    rows = comparisons(which)
    for title, key in (
        ("load", band_name),
        ("policy", lambda row: row.policy),
        ("arrivals", lambda row: row.arrivals),
        ("memory", lambda row: "memory binds" if row.memory_bound else "batch limit"),
    ):
        print(f"\n{title}: |error| in %, median / 90th percentile (median signed), number")
        print("\n".join(table(rows, key)))
    print("\ncoverage of the 90 % intervals")
    print("\n".join(coverage(rows, band_name)))
    if every:
        for name in dict.fromkeys(row.name for row in rows):
            mine = [row for row in rows if row.name == name]
            head = mine[0]
            print(f"{name} {head.policy} {head.arrivals} load {head.load:.2f}{' memory' * head.memory_bound}")
            texts = [f"{row.metric[:-2]} {100 * row.error:+.1f}±{100 * row.half:.1f}" for row in mine]
            print("    " + "  ".join(texts))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.validation", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    simulating = commands.add_parser("simulate", help="simulate the configurations of a set that are missing")
    simulating.add_argument("which", choices=[*SEEDS, *placed.SEEDS])
    simulating.add_argument("--count", type=int, help="only the first so many")
    simulating.add_argument("--results", type=Path, default=RESULTS, help="folder of the stored results")
    looking = commands.add_parser("errors", help="errors of the estimator against what is stored")
    looking.add_argument("which", choices=[*SEEDS, *placed.SEEDS])
    looking.add_argument("--every", action="store_true", help="also each configuration")
    commands.add_parser("widths", help="interval widths from the errors on the tuning set")
    commands.add_parser("report", help="write docs/validation.md and its figures")
    ranking_runs = commands.add_parser("ranking", help="simulate the random designs of the ranking that are missing")
    ranking_runs.add_argument("--count", type=int, default=ranking.COUNT)
    commands.add_parser("top", help="long runs of the best random designs of the selection that are missing")
    commands.add_parser("replays", help="simulate Azure records and the workloads fitted to them")
    highest = commands.add_parser("max-rates", help="simulate the highest rates under an SLO that are missing")
    highest.add_argument("--count", type=int, default=max_rates.COUNT)
    selecting = commands.add_parser("selection", help="simulate the designs of the selection that are missing")
    selecting.add_argument("--pool", type=int, default=selection.POOL, help="designs to pick from")
    selecting.add_argument("--random", type=int, default=selection.RANDOM, help="random designs")
    selecting.add_argument("--studies", type=int, default=len(selection.STUDIES), help="models and workloads")
    selecting.add_argument(
        "--no-subspace", action="store_true", help="leave out the subspace that is simulated in full"
    )
    arguments = parser.parse_args()
    if arguments.command == "simulate":
        run_missing(arguments.which, arguments.count, arguments.results)
    elif arguments.command == "errors":
        print_errors(arguments.which, arguments.every)
    elif arguments.command == "widths":
        print("\n".join(widths.lines()))
    elif arguments.command == "ranking":
        ranking.run(arguments.count)
    elif arguments.command == "top":
        ranking.run_top()
    elif arguments.command == "max-rates":
        max_rates.run(arguments.count)
    elif arguments.command == "replays":
        replays.run()
    elif arguments.command == "selection":
        for study in selection.STUDIES[: arguments.studies]:
            selection.run(study, arguments.pool, arguments.random, not arguments.no_subspace)
    else:
        (report.DOCS / "validation.md").write_text(report.page())


if __name__ == "__main__":
    main()
