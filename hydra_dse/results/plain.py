"""Evaluations as plain data: the JSON shape of `estimate` and `simulate`, and of what is stored of a run."""

from __future__ import annotations

import math
from collections.abc import Mapping

from hydra_dse import __version__
from hydra_dse.results.metrics import metric
from hydra_dse.results.nouns import Components, Evaluation


def finite(value: float | None) -> float | None:
    """Return None for what JSON cannot say."""
    return None if value is None or not math.isfinite(value) else float(value)


def evaluation_json(evaluation: Evaluation, provenance: Mapping[str, object]) -> dict[str, object]:
    """The JSON shape of `estimate` and `simulate`."""
    return {
        "source": evaluation.source,
        "metrics": {name: finite(value) for name, value in evaluation.metrics.items()},
        "intervals": {name: [finite(low), finite(high)] for name, (low, high) in evaluation.intervals.items()},
        "units": {name: metric(name).unit for name in evaluation.metrics},
        "feasible": evaluation.feasible,
        "violations": [
            {
                "constraint": violation.constraint,
                "demand": finite(violation.demand),
                "bound": finite(violation.bound),
                "unit": violation.unit,
                "levers": list(violation.levers),
            }
            for violation in evaluation.violations
        ],
        "notes": list(evaluation.notes),
        **({} if evaluation.components is None else {"components": components_json(evaluation.components)}),
        "provenance": {"version": __version__, **provenance},
    }


def components_json(components: Components) -> dict[str, object]:
    """Utilisation and power of every component, and power by cause."""
    return {
        "seconds": finite(components.seconds),
        "power_w": {cause: finite(power) for cause, power in components.power_w.items()},
        "parts": [
            {
                "name": part.name,
                "kind": part.kind,
                "place": part.place,
                "utilization": finite(part.utilization),
                "dynamic_w": finite(part.dynamic_w),
                "static_w": finite(part.static_w),
            }
            for part in components.parts
        ],
    }
