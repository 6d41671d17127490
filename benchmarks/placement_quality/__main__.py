"""Quality of placements: `python -m benchmarks.placement_quality {gap,large,effect} [--out FILE] [--quick]`.

`gap`: every algorithm against the exact optimum on nine slots.  `large`: against ours on 24 slots, with the CPU time of
a placement.  `effect`: saturation and TTFT of one package under every placement, simulated.  Each on a mesh, a torus, a
hexagonal grid and an irregular floorplan.  `--out` is a CSV file; what lies there is not done again.
"""

from __future__ import annotations

import argparse
import csv
import os
from collections.abc import Callable, Sequence
from pathlib import Path

for _threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_threads, "1")

from benchmarks.placement_quality.cases import KINDS  # noqa: E402
from benchmarks.placement_quality.gaps import large_gaps, small_gaps  # noqa: E402
from benchmarks.placement_quality.simulated import Effort, effects  # noqa: E402
from benchmarks.placement_quality.tables import effect_row, gap_rows  # noqa: E402
from hydra_dse.config import load_model  # noqa: E402

MODEL = "nemotronh-4b"
LINKS_GB_PER_S = (256.0, 512.0)
STEPS = 4000
LARGE_CASES = 12
Row = dict[str, object]


def gap(quick: bool, kind: str) -> list[Row]:
    """Rows of one kind on nine slots."""
    found = small_gaps(kind, load_model(MODEL), 400 if quick else STEPS, 2 if quick else None)
    return gap_rows(list(found))


def large(quick: bool, kind: str) -> list[Row]:
    """Rows of one kind on 24 slots."""
    return gap_rows(list(large_gaps(kind, load_model(MODEL), 400 if quick else STEPS, 1 if quick else LARGE_CASES)))


def effect(quick: bool, kind: str) -> list[Row]:
    """Rows of one kind by link bandwidth."""
    effort = Effort(60, 2, 2, 200) if quick else Effort()
    links = LINKS_GB_PER_S[:1] if quick else LINKS_GB_PER_S
    return [effect_row(one) for link in links for one in effects(kind, link, effort)]


PARTS: dict[str, Callable[[bool, str], list[Row]]] = {"gap": gap, "large": large, "effect": effect}


def stored(path: Path | None) -> list[Row]:
    """Rows of an earlier run."""
    if path is None or not path.exists():
        return []
    with path.open(newline="") as stream:
        return [dict(row) for row in csv.DictReader(stream)]


def run(part: str, kinds: Sequence[str], out: Path | None, quick: bool) -> list[Row]:
    """Do one part kind by kind, writing after each."""
    rows = stored(out)
    done = {row["kind"] for row in rows}
    for kind in kinds:
        if kind in done:
            continue
        rows += PARTS[part](quick, kind)
        if out is not None:
            write(out, rows)
    return rows


def write(path: Path, rows: Sequence[Row]) -> None:
    """Write rows as CSV by way of a temporary file."""
    draft = path.with_suffix(".tmp")
    with draft.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    draft.replace(path)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=sorted(PARTS))
    parser.add_argument("--kind", choices=KINDS, action="append", help="only these")
    parser.add_argument("--out", type=Path, help="CSV file; kinds that it holds are not done again")
    parser.add_argument("--quick", action="store_true", help="few packages, steps and requests")
    options = parser.parse_args(arguments)
    for row in run(options.part, options.kind or KINDS, options.out, options.quick):
        print("  ".join(f"{value:.3f}" if isinstance(value, float) else str(value) for value in row.values()))


if __name__ == "__main__":
    main()
