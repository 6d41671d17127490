"""Designs that a run was compared with: `compare.csv`, where the run directory has one."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping
from dataclasses import dataclass

from hydra_dse.errors import Fault, InputError
from hydra_dse.report.run import Run

COMPARE = "compare.csv"
COLUMNS = ("design", "metric", "simulated", "ci_low", "ci_high")


@dataclass(frozen=True)
class Value:
    """A simulated value with its 95 % confidence interval, NaN where there is none."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Compared:
    """A named design and its simulated values by metric."""

    name: str
    values: Mapping[str, Value]


def compared(run: Run) -> list[Compared]:
    """The compared designs in the order of the file; none where there is no file.

    Raises:
        InputError: the file is not such a table.
    """
    run.directory.refuse_links(COMPARE)
    path = run.directory.path / COMPARE
    return read_compared(path.read_bytes(), str(path)) if path.exists() else []


def read_compared(data: bytes, file: str) -> list[Compared]:
    """Read a table with the columns `design`, `metric`, `simulated`, `ci_low`, `ci_high` and any others.

    Raises:
        InputError: not such a table.
    """
    found: dict[str, dict[str, Value]] = {}
    try:
        reader = csv.DictReader(io.StringIO(data.decode()))
        missing = [name for name in COLUMNS if name not in (reader.fieldnames or ())]
        if missing:
            raise ValueError(f"no column {missing[0]!r}")
        for row in reader:
            value, low, high = (float(row[name]) if row[name] else math.nan for name in COLUMNS[2:])
            found.setdefault(row["design"], {})[row["metric"]] = Value(value, low, high)
    except (ValueError, TypeError, csv.Error) as error:
        raise InputError(Fault(f"not a readable comparison ({error})", file=file)) from error
    return [Compared(name, values) for name, values in found.items()]
