"""What a metric is, and the registry of all of them.

A metric is one small function from a `Measured` bundle to a number (or to a number for each of several things), with
name, unit, category and direction.  It raises `Unavailable` where an input is missing.  Anyone adds one through the
entry-point group `hydra_dse.metrics`: a point that loads to a `TraceMetric`, or to a list of them.

    from hydra_dse.bundle.metrics import Measured, TraceMetric

    def kernels(bundle: Measured) -> float:
        return float(sum(len(rank.kernels) for rank in bundle.ranks("json")))

    METRIC = TraceMetric("kernel_count", "1", "compute", "neither", "kernels of all ranks", {"json": kernels})
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

from hydra_dse.errors import Fault, InputError, did_you_mean
from hydra_dse.results.metrics import MAXIMISE, MINIMISE, NEITHER

if TYPE_CHECKING:
    from hydra_dse.bundle.metrics.measured import Measured

GROUP = "hydra_dse.metrics"
CATEGORIES = ("compute", "memory", "communication", "serving", "energy", "card")
DIRECTIONS = (MINIMISE, MAXIMISE, NEITHER)
SOURCES = ("json", "nsys", "json_tpu", "card")
"""Inputs in the order in which the original tools try them after nsys; `card` needs no trace."""

Value = float | Mapping[str, float]


class Unavailable(Exception):
    """A metric has no value for this bundle; the text says which input is missing."""


@dataclass(frozen=True)
class TraceMetric:
    """One metric.

    Attributes:
        name: as in every JSON and table; the original toolkit's name for its metrics.
        unit: of the value; "" for a ratio.
        category: one of `CATEGORIES`.
        direction: one of `minimise`, `maximise`, `neither`.
        definition: one line.
        functions: kind of trace → the function that computes it from such traces, in order of preference.
        requires: what it reads besides, for people.
        original: whether the original toolkit has it under this name.
        missing: why no function can compute it, where there is none.
    """

    name: str
    unit: str
    category: str
    direction: str
    definition: str
    functions: Mapping[str, Callable[[Measured], Value]]
    requires: tuple[str, ...] = ()
    original: bool = False
    missing: str = ""


_REGISTRY: dict[str, TraceMetric] = {}


def register(metric: TraceMetric) -> None:
    """Add a metric of ours when its module is imported."""
    if metric.name in _REGISTRY:
        raise ValueError(f"metric {metric.name!r} is registered twice")
    _REGISTRY[metric.name] = metric


def own_metrics() -> dict[str, TraceMetric]:
    """The metrics of this project by name: the catalogue in its order, then ours."""
    import hydra_dse.bundle.metrics.catalogue  # noqa: F401  (registers)

    return dict(_REGISTRY)


def metrics() -> dict[str, TraceMetric]:
    """All metrics by name: the catalogue in its order, then ours, then those of other packages by name.

    Raises:
        InputError: an installed package's metric cannot be loaded, is none, or takes a name that is taken.
    """
    found = own_metrics()
    for point in sorted(entry_points(group=GROUP), key=lambda point: (point.name, point.value)):
        try:
            loaded = point.load()
        except Exception as error:
            raise InputError(Fault(f"metric {point.name!r} ({point.value}) cannot be loaded: {error}")) from error
        for metric in [loaded] if isinstance(loaded, TraceMetric) else _listed(loaded, point.name):
            check(metric, point.value)
            if metric.name in found:
                raise InputError(Fault(f"metric {metric.name!r} of {point.value} takes a name that is taken"))
            found[metric.name] = metric
    return found


def is_ours(metric: TraceMetric) -> bool:
    """Whether a metric is of this project: a fault in it is ours, while one of others leaves the metric out."""
    return _REGISTRY.get(metric.name) is metric


def _listed(loaded: object, name: str) -> Iterable[TraceMetric]:
    if not isinstance(loaded, (list, tuple)) or not all(isinstance(one, TraceMetric) for one in loaded):
        raise InputError(Fault(f"entry point {name!r} of {GROUP} is no TraceMetric and no list of them"))
    return loaded


def check(metric: TraceMetric, where: str) -> None:
    """Refuse a metric whose description is not in the terms of this registry."""
    for value, choices in (
        (metric.category, CATEGORIES),
        (metric.direction, DIRECTIONS),
        *((source, SOURCES) for source in metric.functions),
    ):
        if value not in choices:
            expected = ", ".join(choices)
            hint = did_you_mean(value, choices)
            raise InputError(Fault(f"metric {metric.name!r} of {where}: {value!r}{hint}; expected one of {expected}"))
