"""`python -m benchmarks.validation simulate|errors|report`: run what is missing, look at errors, write the page."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

for _threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_threads, "1")

from benchmarks.validation.cases import SEEDS, SIZES, cases  # noqa: E402
from benchmarks.validation.compiled import serve_compiled  # noqa: E402
from benchmarks.validation.errors import band_name, comparisons, coverage, table  # noqa: E402
from benchmarks.validation.simulate import simulate  # noqa: E402
from benchmarks.validation.store import RESULTS, append, digest, load  # noqa: E402


def run_missing(which: str, count: int, folder: Path) -> None:
    """Simulate the configurations of a set that have no result yet, in order."""
    known = load(which, folder)
    for case in cases(which, count):
        if case.name in known and known[case.name][0] == digest(case):
            continue
        found = simulate(case, serve_compiled, short=which == "slice")
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
    simulating.add_argument("which", choices=list(SEEDS))
    simulating.add_argument("--count", type=int, help="only the first so many")
    simulating.add_argument("--results", type=Path, default=RESULTS, help="folder of the stored results")
    looking = commands.add_parser("errors", help="errors of the estimator against what is stored")
    looking.add_argument("which", choices=list(SEEDS))
    looking.add_argument("--every", action="store_true", help="also each configuration")
    arguments = parser.parse_args()
    if arguments.command == "simulate":
        run_missing(arguments.which, arguments.count or SIZES[arguments.which], arguments.results)
    else:
        print_errors(arguments.which, arguments.every)


if __name__ == "__main__":
    main()
