"""`validation.csv`: estimate and simulation side by side, one row per design and metric, and its summary."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from hydra_dse.errors import Fault, InputError
from hydra_dse.studies.files import csv_bytes
from hydra_dse.studies.selection import MODERATE_LOAD


@dataclass(frozen=True)
class ValidationRow:
    """One metric of one design.

    Attributes:
        rank: place of the design in the order of simulation, from 1.
        load: estimated load of the design, NaN where unknown.
        ci_low, ci_high: 95 % confidence interval of the simulated value, NaN where there is none.
        relative_error: (estimate − simulated) / simulated, NaN where either is missing or both are 0.
        role: why the design was simulated (see `front_check`).
    """

    design: str
    rank: int
    load: float
    metric: str
    estimate: float
    simulated: float
    ci_low: float
    ci_high: float
    relative_error: float
    requests: int
    replications: int
    seed: int
    role: str = "top"


COLUMNS = tuple(item.name for item in fields(ValidationRow))
BANDS = (f"load <= {MODERATE_LOAD}", f"load > {MODERATE_LOAD}", "several loads")
_NUMBERS = {"load", "estimate", "simulated", "ci_low", "ci_high", "relative_error"}
_COUNTS = {"rank", "requests", "replications", "seed"}


@dataclass(frozen=True)
class MetricError:
    """Median absolute relative error of a metric over the designs of a load band."""

    metric: str
    band: str
    designs: int
    median: float


def relative_error(estimate: float, simulated: float) -> float:
    """(estimate − simulated) / simulated; NaN where it has no meaning."""
    if not (math.isfinite(estimate) and math.isfinite(simulated)) or simulated == 0:
        return math.nan
    return (estimate - simulated) / abs(simulated)


def to_csv(rows: Sequence[ValidationRow]) -> bytes:
    """The rows as a CSV file."""
    return csv_bytes(COLUMNS, [[getattr(row, name) for name in COLUMNS] for row in rows])


def from_csv(data: bytes, file: str) -> list[ValidationRow]:
    """Read what `to_csv` wrote.

    Raises:
        InputError: not such a file.
    """
    try:
        reader = csv.DictReader(io.StringIO(data.decode()))
        if tuple(reader.fieldnames or ()) != COLUMNS:
            raise ValueError(f"columns {reader.fieldnames}")
        return [_row(raw) for raw in reader]
    except (ValueError, TypeError) as error:
        raise InputError(
            Fault(f"not a readable validation table ({error}); delete it to start anew", file=file)
        ) from error


def _row(raw: dict[str, str]) -> ValidationRow:
    numbers = {name: float(raw[name]) if raw[name] else math.nan for name in COLUMNS if name in _NUMBERS}
    counts = {name: int(raw[name]) for name in COLUMNS if name in _COUNTS}
    return ValidationRow(
        design=raw["design"],
        metric=raw["metric"],
        role=raw["role"],
        rank=counts["rank"],
        requests=counts["requests"],
        replications=counts["replications"],
        seed=counts["seed"],
        load=numbers["load"],
        estimate=numbers["estimate"],
        simulated=numbers["simulated"],
        ci_low=numbers["ci_low"],
        ci_high=numbers["ci_high"],
        relative_error=numbers["relative_error"],
    )


def band_of(load: float) -> str:
    """The band of a load; NaN is that of designs under several loads."""
    if math.isnan(load):
        return BANDS[2]
    return BANDS[0] if load <= MODERATE_LOAD else BANDS[1]


def summary(rows: Sequence[ValidationRow]) -> tuple[MetricError, ...]:
    """Median absolute errors by metric, for loads ≤ 0.8, above, and for those of several loads together."""
    found = []
    for metric in dict.fromkeys(row.metric for row in rows):
        for band in BANDS:
            errors = [
                abs(row.relative_error)
                for row in rows
                if row.metric == metric and band_of(row.load) == band and math.isfinite(row.relative_error)
            ]
            if errors:
                found.append(MetricError(metric, band, len(errors), float(np.median(errors))))
    return tuple(found)
