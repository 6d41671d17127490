"""Which choices decide how good a design is: a decomposition of the variance over a space.

Saltelli's design with Jansen's estimators (Computer Physics Communications 117, 1999; Saltelli et al., ibid. 181,
2010): rows A and B are independent draws of all factors; A_B^i is A with factor i of B.  With f the log of a metric,

    first order  S_i = 1 − E[(f(B) − f(A_B^i))²] / (2 V)        total effect  T_i = E[(f(A) − f(A_B^i))²] / (2 V)

T_i − S_i is what factor i does together with others.  Intervals come from a bootstrap over rows.  Rows in which some
design is infeasible are left out of all sums and counted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import astuple, dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from hydra_dse.design.comparison import Load
from hydra_dse.design.nouns import Design
from hydra_dse.design.space import Point, SearchSpace, Value
from hydra_dse.design.variance import Decomposition, Factor
from hydra_dse.errors import Fault, InputError, NothingFeasible
from hydra_dse.estimator.shares import at_shares
from hydra_dse.rng import derive
from hydra_dse.search.outer import OuterSpace
from hydra_dse.studies.executor import executor, runs_beside
from hydra_dse.studies.files import csv_bytes
from hydra_dse.studies.interrupts import STOPS, stopped

FloatArray = NDArray[np.float64]
Draw = Mapping[str, Mapping[str, Value]]
"""Factor → its values by name."""

Responses = tuple[FloatArray, Mapping[float, FloatArray]]
"""Saturation, and mean TTFT by share of it."""

_DRAWS = 1000
_TASK_DESIGNS = 256
_POLICY = ("batching", "task_map", "placement")


@dataclass(frozen=True)
class EffectRow:
    """Indices of a factor for one response, with 95 % bootstrap intervals.

    Attributes:
        response: `saturation` or `ttft_at_<share>` of a design's own saturation.
        rows, dropped: rows used, and rows left out as some design in them is infeasible.
        spread: standard deviation of the natural logarithm of the response over the space.
    """

    model: str
    workload: str
    response: str
    factor: str
    first: float
    first_low: float
    first_high: float
    total: float
    total_low: float
    total_high: float
    rows: int
    dropped: int
    spread: float


def jansen(a: FloatArray, b: FloatArray, mixed: FloatArray) -> tuple[FloatArray, FloatArray]:
    """First-order and total indices, each of shape (factors,).

    `a` and `b` are responses of independent rows, shape (rows,); `mixed` those of A with one factor
    of B, shape (factors, rows).
    """
    variance = np.var(np.concatenate([a, b]))
    if not variance > 0.0:
        return np.full(len(mixed), np.nan), np.full(len(mixed), np.nan)
    first = 1.0 - np.mean((b - mixed) ** 2, axis=1) / (2.0 * variance)
    return first, np.mean((a - mixed) ** 2, axis=1) / (2.0 * variance)


def decompose(
    study: Decomposition,
    told: Callable[[int, int, str], None] | None = None,
    *,
    workers: int = 1,
    cluster: str | None = None,
) -> list[EffectRow]:
    """The indices of every load, response and factor; the same for any number of workers.

    Args:
        study: what to decompose.
        told: called after every load with loads done, loads in all, and the load.
        workers: processes that estimate.
        cluster: address of a Dask scheduler whose workers estimate instead.

    Raises:
        NothingFeasible: no row of a load is feasible throughout.
        Interrupted: the user stopped, or workers died again and again; nothing is kept.
    """
    rows: list[EffectRow] = []
    designs = list(_designs(study))
    try:
        with executor(workers, cluster) as pool:
            tasks = (_submitted(study, designs, load, pool) for load in study.loads)
            for number, (load, futures) in enumerate(
                zip(study.loads, list(tasks) if runs_beside(pool) else tasks, strict=True)
            ):
                for name, values in _responses([future.result() for future in futures]).items():
                    rows += _effects(study, (load.model, load.workload, name), values)
                if told is not None:
                    told(number + 1, len(study.loads), f"{load.model} {load.workload}")
    except STOPS as cause:
        raise stopped(cause, "nothing of the decomposition is kept") from None
    return rows


def _submitted(study: Decomposition, designs: Sequence[Design], load: Load, pool: Executor) -> list[Future[Responses]]:
    """Estimates of all designs under a load, in tasks of one size, so that every bit is the same for any pool."""
    starts = range(0, len(designs), _TASK_DESIGNS)
    parts = [tuple(designs[start : start + _TASK_DESIGNS]) for start in starts]
    return [pool.submit(at_shares, part, load.requests, study.calibration, study.shares, study.seed) for part in parts]


def _responses(parts: Sequence[Responses]) -> dict[str, FloatArray]:
    """Responses by name, each of shape (designs,), from those of the tasks."""
    found = {"saturation": np.concatenate([tokens for tokens, _ in parts])}
    for share in parts[0][1]:
        found[f"ttft_at_{share:g}"] = np.concatenate([ttft[share] for _, ttft in parts])
    return found


def _effects(study: Decomposition, names: tuple[str, str, str], values: FloatArray) -> Iterator[EffectRow]:
    with np.errstate(all="ignore"):
        logs = np.log(values).reshape(len(study.factors) + 2, study.rows)
    kept = np.isfinite(logs).all(axis=0)
    if kept.sum() < 2:
        raise NothingFeasible(f"of {study.rows} rows none is feasible throughout ({', '.join(names)})")
    a, b, mixed = logs[0, kept], logs[1, kept], logs[2:, kept]
    first, total = jansen(a, b, mixed)
    picks = derive(study.seed, "bootstrap", *names).integers(len(a), size=(_DRAWS, len(a)))
    drawn = [jansen(a[row], b[row], mixed[:, row]) for row in picks]
    bounds = [np.nanpercentile([draw[kind] for draw in drawn], (2.5, 97.5), axis=0) for kind in (0, 1)]
    spread = float(np.std(np.concatenate([a, b])))
    for place, factor in enumerate(study.factors):
        (first_low, first_high), (total_low, total_high) = ([float(edge[place]) for edge in pair] for pair in bounds)
        own, whole = float(first[place]), float(total[place])
        counts = (len(a), int((~kept).sum()))
        yield EffectRow(*names, factor.name, own, first_low, first_high, whole, total_low, total_high, *counts, spread)


def _designs(study: Decomposition) -> Iterator[Design]:
    """Designs of A, of B, and of A with each factor of B: (factors + 2) times the rows."""
    values = {factor.name: values_of(study, factor) for factor in study.factors}
    a, b = ([_draw(study, values, side, row) for row in range(study.rows)] for side in ("a", "b"))
    for rows in (a, b):
        for drawn in rows:
            yield _design(study.space, drawn)
    for factor in study.factors:
        for mine, other in zip(a, b, strict=True):
            yield _design(study.space, {**mine, factor.name: other[factor.name]})


def _draw(study: Decomposition, values: Mapping[str, Sequence[Mapping[str, Value]]], side: str, row: int) -> Draw:
    rng = derive(study.seed, "variance", side, row)
    return {factor.name: values[factor.name][int(rng.integers(len(values[factor.name])))] for factor in study.factors}


def _design(space: SearchSpace, drawn: Draw) -> Design:
    """The design of a draw: static batches leave no room for another task map than the static one."""
    values: dict[str, Value] = {name: value for part in drawn.values() for name, value in part.items()}
    changes = {name: values.pop(name) for name in _POLICY if name in values}
    point: Point | None = space.complete(values)
    if point is None:
        message = (
            f"factors drawn apart make {values}, which is not in space {space.name!r}: put its counts in one factor"
        )
        raise InputError(Fault(message, path="variance.factors"))
    design = space.build(point)
    placement = changes.pop("placement", design.placement_algorithm)
    if changes.get("batching", design.policy.batching) == "static":
        changes["task_map"] = "static"
    policy = replace(design.policy, **changes)  # type: ignore[arg-type]
    return replace(design, policy=policy, placement_algorithm=str(placement), placement=None)


def values_of(study: Decomposition, factor: Factor) -> tuple[Mapping[str, Value], ...]:
    """Every combination of a factor's parameters that occurs in the space, times its choices beside the space.

    Outer parameters are told by the outer points of the space, inner ones by the grid of one of them.
    """
    outer = OuterSpace(study.space)
    inner = [one.name for one in outer.inner if one.name in factor.parameters]
    coarse = [one.name for one in outer.outer if one.name in factor.parameters]
    beside = [name for name in factor.parameters if name in study.choices]
    found: list[dict[str, Value]] = [{}]
    if coarse:
        points = [outer.values(point) for point in outer.points()]
        found = _distinct([{name: point[name] for name in coarse} for point in points])
    if inner:
        grid = [point for _, point in outer.variants(next(iter(outer.points())))]
        grids = _distinct([{name: point[name] for name in inner} for point in grid])
        found = [{**one, **other} for one in found for other in grids]
    for name in beside:
        found = [{**one, name: value} for one in found for value in study.choices[name]]
    return tuple(found)


def _distinct(items: Sequence[dict[str, Value]]) -> list[dict[str, Value]]:
    return list({tuple(item.items()): item for item in items}.values())


def variance_csv(rows: Sequence[EffectRow]) -> bytes:
    """`variance.csv`."""
    cells = [[None if isinstance(cell, float) and math.isnan(cell) else cell for cell in astuple(row)] for row in rows]
    return csv_bytes([item.name for item in fields(EffectRow)], cells)
