"""`designs.parquet`: every scored design as one row.

Columns: `design` (id), `generation`, `trial` (outer point), `source`, the parameters, `feasible`, `violation`
(summed relative excess), `violations` (JSON: constraint, demand, bound, unit, levers), the metrics, and
`<metric>:low`, `<metric>:high` for intervals.  Which column is a parameter stands in the schema's metadata.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from hydra_dse.design.space import Point, SearchSpace, Value
from hydra_dse.errors import Fault, InputError
from hydra_dse.results import Violation
from hydra_dse.results.parquet import read_table
from hydra_dse.search.scores import ScoreTable, concatenate

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

FIXED = ("design", "generation", "trial", "source", "feasible", "violation", "violations")
_KEY = b"hydra_dse"


@dataclass(frozen=True)
class ScoredDesigns:
    """Scored designs in order: their points, where they come from, and their scores."""

    points: tuple[Point, ...]
    generation: tuple[int, ...]
    trial: tuple[int, ...]
    scores: ScoreTable
    source: str = "estimated"

    def __len__(self) -> int:
        return len(self.points)


def joined(parts: Sequence[ScoredDesigns]) -> ScoredDesigns:
    """Several tables as one."""
    return ScoredDesigns(
        points=tuple(point for part in parts for point in part.points),
        generation=tuple(number for part in parts for number in part.generation),
        trial=tuple(number for part in parts for number in part.trial),
        scores=concatenate([part.scores for part in parts]),
    )


def check_names(space: SearchSpace, metrics: Iterable[str]) -> None:
    """Raise `InputError` where a parameter has the name of another column."""
    taken = {*FIXED, *metrics}
    names = [*(parameter.name for parameter in space.parameters), *space.derived]
    faults = [
        Fault(f"space {space.name!r}: parameter {name!r} has the name of a result") for name in names if name in taken
    ]
    if faults:
        raise InputError(faults)


def to_parquet(designs: ScoredDesigns) -> bytes:
    """The table as a Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq  # type: ignore[import-untyped]

    scores = designs.scores
    parameters = list(designs.points[0]) if designs.points else []
    columns: dict[str, pa.Array] = {
        "design": pa.array(scores.identities, pa.string()),
        "generation": pa.array(designs.generation, pa.int32()),
        "trial": pa.array(designs.trial, pa.int32()),
        "source": pa.array([designs.source] * len(designs), pa.string()),
    }
    columns |= {name: _values([point[name] for point in designs.points]) for name in parameters}
    columns["feasible"] = pa.array([not broken for broken in scores.violations], pa.bool_())
    columns["violation"] = pa.array(scores.violation, pa.float64())
    columns["violations"] = pa.array([_violations_text(broken) for broken in scores.violations], pa.string())
    for suffix, values in (("", scores.metrics), (":low", scores.low), (":high", scores.high)):
        columns |= {name + suffix: pa.array(np.asarray(column, float), pa.float64()) for name, column in values.items()}
    marks = {
        "parameters": parameters,
        "metrics": list(scores.metrics),
        "low": list(scores.low),
        "high": list(scores.high),
    }
    table = pa.table(columns).replace_schema_metadata({_KEY: json.dumps(marks).encode()})
    stream = io.BytesIO()
    pq.write_table(table, stream)
    return stream.getvalue()


def from_parquet(data: bytes, file: str) -> ScoredDesigns:
    """Read what `to_parquet` wrote.

    Raises:
        InputError: the file is truncated, corrupt or not one of ours.
    """
    import pyarrow as pa

    try:
        table = read_table(data)
        marks = json.loads((table.schema.metadata or {})[_KEY])
        columns = {name: table.column(name) for name in table.column_names}
        scores = ScoreTable(
            identities=tuple(columns["design"].to_pylist()),
            metrics=_floats(columns, marks["metrics"], ""),
            violations=tuple(_violations_of(text) for text in columns["violations"].to_pylist()),
            low=_floats(columns, marks["low"], ":low"),
            high=_floats(columns, marks["high"], ":high"),
        )
        values = [columns[name].to_pylist() for name in marks["parameters"]]
        points = tuple(dict(zip(marks["parameters"], row, strict=True)) for row in zip(*values, strict=True))
        generation, trial = columns["generation"].to_pylist(), columns["trial"].to_pylist()
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(Fault(f"not a readable table of designs ({_first_line(error)})", file=file)) from error
    return ScoredDesigns(points, tuple(generation), tuple(trial), scores)


def rows_between(designs: ScoredDesigns, start: int, stop: int) -> ScoredDesigns:
    """The rows from `start` up to `stop`."""
    return replace(
        designs,
        points=designs.points[start:stop],
        generation=designs.generation[start:stop],
        trial=designs.trial[start:stop],
        scores=designs.scores.rows(start, stop),
    )


def same_points(points: Sequence[Point], stored: Sequence[Point]) -> bool:
    """Whether stored points are these points (a column that mixes words and numbers stores words)."""
    return len(points) == len(stored) and all(
        one.keys() == other.keys()
        and all(one[name] == value or str(one[name]) == value for name, value in other.items())
        for one, other in zip(points, stored, strict=True)
    )


def point_in(space: SearchSpace, stored: Point) -> Point:
    """The point of the space that a stored row names, with its own choices (1 stays an integer) and derived values.

    Raises:
        InputError: no such point.
    """
    chosen: dict[str, Value] = {}
    for parameter in space.parameters:
        value = stored.get(parameter.name)
        found = [choice for choice in parameter.choices if choice == value or str(choice) == value]
        if not found:
            raise InputError(Fault(f"{parameter.name} = {value!r} is not a choice of space {space.name!r}"))
        chosen[parameter.name] = found[0]
    done = space.complete(chosen)
    if done is None:
        raise InputError(Fault(f"{dict(stored)} is not in space {space.name!r}"))
    return done


def _values(values: Sequence[Value]) -> pa.Array:
    """One Arrow type per parameter; a mix of words and numbers is kept as words."""
    import pyarrow as pa

    if all(isinstance(value, bool) for value in values) or all(isinstance(value, str) for value in values):
        return pa.array(values)
    if any(isinstance(value, bool | str) for value in values):
        return pa.array([str(value) for value in values], pa.string())
    return pa.array(values, pa.int64() if all(isinstance(value, int) for value in values) else pa.float64())


def _floats(columns: Mapping[str, pa.ChunkedArray], names: Sequence[str], suffix: str) -> dict[str, np.ndarray]:
    return {name: np.asarray(columns[name + suffix].to_numpy(), dtype=float) for name in names}


def _violations_text(violations: Sequence[Violation]) -> str:
    rows = [[item.constraint, item.demand, item.bound, item.unit, list(item.levers)] for item in violations]
    names = ("constraint", "demand", "bound", "unit", "levers")
    return json.dumps([dict(zip(names, row, strict=True)) for row in rows]) if rows else ""


def _violations_of(text: str) -> tuple[Violation, ...]:
    items = json.loads(text) if text else []
    return tuple(
        Violation(item["constraint"], item["demand"], item["bound"], item["unit"], tuple(item["levers"]))
        for item in items
    )


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
