"""Running until intervals are narrow enough: how many replications come next.

Half-widths shrink with the root of the work, so the next run takes `(half-width / target)²` times the replications of
the last one and a tenth more, at most eight times as many.  Every run is whole: its first replications have the same
requests as those of the run before.  Stopping at a width makes intervals cover slightly less than they state (Law,
Simulation Modeling and Analysis, 5th ed., section 9.4.1).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from hydra_dse.design.evaluator import EvaluationOptions
from hydra_dse.errors import Fault, InputError, did_you_mean
from hydra_dse.results.nouns import Evaluation

MARGIN = 1.1
"""Replications beyond those that the last width asks for: the next one varies too."""
MOST_AT_ONCE = 8
"""Times as many replications as before."""


def half_widths(evaluation: Evaluation, names: Sequence[str]) -> dict[str, float]:
    """Half-width over value of each metric that has a value; infinite where there is no interval.

    Raises:
        InputError: a metric that the run does not have.
    """
    found = {}
    for name in names:
        if name not in evaluation.metrics:
            raise InputError(
                Fault(f"the run has no metric {name!r}{did_you_mean(name, evaluation.metrics)}", "target metric")
            )
        value, interval = evaluation.metrics[name], evaluation.intervals.get(name)
        if not value:
            continue
        found[name] = (interval[1] - interval[0]) / 2.0 / abs(value) if interval is not None else math.inf
    return found


def next_replications(evaluation: Evaluation, options: EvaluationOptions) -> int | None:
    """Replications of the next run; None where the target is reached, or the limit of requests is.

    Raises:
        InputError: a target metric that the run does not have.
    """
    if options.target_ci is None or not evaluation.feasible:
        return None
    widest = max(half_widths(evaluation, options.target_metrics).values(), default=0.0)
    if widest <= options.target_ci:
        return None
    now = options.replications
    growth = MOST_AT_ONCE if math.isinf(widest) else MARGIN * (widest / options.target_ci) ** 2
    wanted = min(max(math.ceil(now * growth), now + 1), MOST_AT_ONCE * now)
    allowed = min(wanted, options.most_requests // options.requests)
    return allowed if allowed > now else None


def target_note(evaluation: Evaluation, options: EvaluationOptions) -> str | None:
    """What a reader must know of a run whose intervals stayed wider than they should be."""
    if options.target_ci is None or not evaluation.feasible:
        return None
    wide = {
        name: width
        for name, width in half_widths(evaluation, options.target_metrics).items()
        if width > options.target_ci
    }
    if not wide:
        return None
    reached = ", ".join(f"{name} ±{100 * width:.3g} %" for name, width in wide.items())
    return f"target CI of {100 * options.target_ci:.3g} % not reached with {options.most_requests} requests: {reached}"
