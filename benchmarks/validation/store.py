"""Simulated results in CSV files, a row a configuration, appended as they are found.

A row names the configuration and a digest of all that it is drawn as; a row whose digest is not that of the generator
is of another configuration and is simulated again.
"""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Sequence
from pathlib import Path

from benchmarks.validation.simulate import Simulatable, Simulated

RESULTS = Path(__file__).parent / "results"
HEAD = ("name", "digest", "runs", "requests", "memories")
METRICS = (
    "saturation_requests_per_s",
    *(f"{kind}_{part}_s" for kind in ("ttft", "tpot", "e2e") for part in ("mean", "p50", "p90", "p99")),
    "batch_mean",
    "preemptions_per_request",
)
COLUMNS = (*HEAD, *METRICS, *(f"{name}_half" for name in METRICS))


def digest(case: Simulatable) -> str:
    """A short name for everything that a configuration is made of."""
    return hashlib.sha256(case.made_of.encode()).hexdigest()[:12]


def row_of(case: Simulatable, found: Simulated) -> list[str]:
    """The row of a result, values to six digits."""
    values = [f"{found.values[name]:.6g}" for name in METRICS]
    halves = [f"{found.half[name]:.3g}" for name in METRICS]
    return [case.name, digest(case), str(found.runs), str(found.requests), f"{found.memories:.4g}", *values, *halves]


def path_of(which: str, folder: Path = RESULTS) -> Path:
    """The file of a set."""
    return folder / f"{which}.csv"


def load(which: str, folder: Path = RESULTS) -> dict[str, tuple[str, Simulated]]:
    """Digest and result by name; of rows that repeat a name the last one."""
    path = path_of(which, folder)
    if not path.exists():
        return {}
    with path.open(newline="") as file:
        return {row["name"]: (row["digest"], _read(row)) for row in csv.DictReader(file) if row["digest"]}


def _read(row: dict[str, str]) -> Simulated:
    return Simulated(
        {name: float(row[name]) for name in METRICS},
        {name: float(row[f"{name}_half"]) for name in METRICS},
        int(row["runs"]),
        int(row["requests"]),
        float(row["memories"]),
    )


def append(which: str, case: Simulatable, found: Simulated, folder: Path = RESULTS) -> None:
    """Add a result, so that an interrupted run goes on where it was."""
    append_row(path_of(which, folder), COLUMNS, row_of(case, found))


def append_row(path: Path, columns: Sequence[str], row: Sequence[object]) -> None:
    """Add a row to a file, which starts with the names of its columns."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        if new:
            writer.writerow(columns)
        writer.writerow(row)
