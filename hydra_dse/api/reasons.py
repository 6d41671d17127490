"""Why one design is faster than another, and which resource to make faster first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hydra_dse.bundle.explain import Comparison
from hydra_dse.bundle.whatif import Gain
from hydra_dse.errors import Fault, InputError, one_of
from hydra_dse.studies.explaining import REQUESTS, explained
from hydra_dse.studies.whatif import BY, Replayed, what_if_of

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

RECORDED = "duration_s"
"""What a foreign trace tells: the time from its first event to its last."""


@dataclass(frozen=True)
class Waterfall:
    """Where the time of the iterations of A and B goes.

    Attributes:
        found: totals, binding resources, whether both did equal work, and what would change the order.
    """

    found: Comparison

    def frame(self) -> pd.DataFrame:
        """One row per phase and segment: `a_s`, `b_s` and `difference_s` per step, and what each waits for."""
        import pandas as pd

        columns = ["phase", "segment", "a_s", "b_s", "difference_s", "binding_a", "binding_b"]
        rows = [
            (row.phase, row.name, row.a_s, row.b_s, row.difference_s, row.binding_a, row.binding_b)
            for row in self.found.rows
        ]
        return pd.DataFrame(rows, columns=columns)

    def totals(self) -> pd.DataFrame:
        """One row per phase: `a_s`, `b_s` and which is `faster`."""
        import pandas as pd

        rows = [(phase, a, b, self.found.faster(phase)) for phase, (a, b) in self.found.totals.items()]
        return pd.DataFrame(rows, columns=["phase", "a_s", "b_s", "faster"])

    def figure(self) -> Figure:
        """From the time of A, segment by segment, to the time of B; a panel for each phase."""
        from hydra_dse.bundle.explain.plot import waterfall

        return waterfall(self.found)


def explain(
    a: str | Path, b: str | Path, workload: str | None = None, *, requests: int = REQUESTS, normalise: bool = False
) -> Waterfall:
    """Say why A is faster than B, or the other way round.

    Args:
        a: the folder of a bundle, a design of a run (`RUN:ID`), or with a workload any design by file or name.
        b: the other.
        workload: what designs that are no bundles serve; None = that of their run.
        requests: of the simulation of such designs.
        normalise: divide the times by tokens where the two did different work.

    Raises:
        InputError: a fault of an input, an infeasible design, or different work that is not to be normalised.
    """
    return Waterfall(explained(a, b, workload=workload, requests=requests, normalise=normalise))


@dataclass(frozen=True)
class Sensitivities:
    """What making resources faster would give, the best first.

    Attributes:
        baseline: metrics without scaling.
        gains: by what is scaled (resource → factor), how many times better each metric gets.
    """

    baseline: Mapping[str, float]
    gains: tuple[tuple[Mapping[str, float], Mapping[str, Gain]], ...]

    def frame(self) -> pd.DataFrame:
        """One row per set of scaled resources and metric: `scaled`, `metric`, `gain`, `low`, `high` (95 %)."""
        import pandas as pd

        rows = [
            (_name(scaled), metric, gain.mean, gain.low, gain.high)
            for scaled, gains in self.gains
            for metric, gain in gains.items()
        ]
        return pd.DataFrame(rows, columns=["scaled", "metric", "gain", "low", "high"])

    def figure(self, metric: str | None = None) -> Figure:
        """Bars of the gain of a metric with 95 % intervals; the first metric where none is named.

        Raises:
            InputError: no gain of that metric.
        """
        from hydra_dse.report.charts import BLUE, Axis, Bar, BarRow, Bars
        from hydra_dse.report.figures import figure_of
        from hydra_dse.results import metric as known

        there = list(dict.fromkeys(name for _, gains in self.gains for name in gains))
        name = there[0] if metric is None else metric
        if name not in there:
            raise InputError(Fault(f"no gain of {name!r}; there are {one_of(there)}"))
        rows = []
        for scaled, gains in self.gains:
            if name in gains:
                gain = gains[name]
                rows.append(BarRow(_name(scaled), (Bar(0.0, gain.mean, BLUE, "", gain.low, gain.high),), ""))
        label = "recorded time" if name == RECORDED else known(name).label
        return figure_of(Bars(Axis(f"gain of {label} [times better]"), tuple(rows)))


def whatif(
    target: str | Path,
    scale: Mapping[str, float] | None = None,
    workload: str | None = None,
    *,
    requests: int | None = None,
    replications: int = 3,
    by: str = BY,
    pairs: bool = True,
) -> Sensitivities:
    """Simulate a design again with resources scaled, one at a time and in pairs.

    Args:
        target: the folder of a bundle, a design of a run (`RUN:ID`), or with a workload any design by file or name.
        scale: resource → factor, as `{"noi": 2, "compute:matmul": 2}`; by default twice everything, one at a time.
        workload: what a design that is no bundle serves; None = that of its run.
        requests: of each run of such a design; by default 200.
        replications: paired runs.
        by: the metric whose gain decides the order.
        pairs: also two resources at a time.

    Raises:
        InputError: a fault of an input, an unknown resource, or an infeasible design.
    """
    scales = [f"{resource}={factor!r}" for resource, factor in (scale or {}).items()]
    found = what_if_of(
        target, scales, workload=workload, requests=requests, replications=replications, by=by, pairs=pairs
    )
    if isinstance(found, Replayed):
        unknown = float("nan")
        rows = [
            ({name: found.factors[name] for name in names}, {RECORDED: Gain(gain, unknown, unknown)})
            for names, gain in found.gains
        ]
        return Sensitivities({RECORDED: found.baseline_s}, tuple(rows))
    gains = tuple(({each.resource: each.factor for each in one.scales}, dict(one.gains)) for one in found.sensitivities)
    return Sensitivities(found.baseline, gains)


def _name(scaled: Mapping[str, float]) -> str:
    return " and ".join(f"{resource} × {factor:g}" for resource, factor in scaled.items())
