"""Metrics over several scenarios: `worst(x)`, `mean(x)`, `cvar20(x)`, and `worst_share(x)` … of the reference's value.

CVaR at 20 % is the mean of the worst 20 % of the scenarios (Rockafellar and Uryasev 2000), all weighing the same; a
part of a scenario counts as a part.  `worst` and `mean` are its ends.  A share is the part of the scenario's reference
that a design keeps: value / reference where more is better, reference / value where less is; it may exceed 1.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:  # names of metrics are known to `--help`, which loads nothing heavy
    import numpy as np
    from numpy.typing import NDArray

    FloatArray: TypeAlias = NDArray[np.float64]

FORMS = ("worst", "mean", "cvar20", "worst_share", "mean_share", "cvar20_share")
_PATTERN = re.compile(r"(worst|mean|cvar([0-9]{1,2}))(_share)?\(([^()]+)\)")
AT = "@"
"""What stands between a metric and the scenario it is of."""


@dataclass(frozen=True)
class Aggregate:
    """How the values of a metric in several scenarios become one.

    Attributes:
        name: as written, e.g. `cvar20_share(ttft_mean_s)`.
        metric: the metric inside.
        tail: share of the scenarios that count, the worst ones; 0 = the worst alone, 1 = all.
        of_shares: aggregate shares of the reference's values instead of values.
    """

    name: str
    metric: str
    tail: float
    of_shares: bool

    def over(self, values: FloatArray, maximised: bool) -> FloatArray:
        """Aggregate values of shape (designs, scenarios), in their own direction, to shape (designs,)."""
        import numpy as np

        count = values.shape[1]
        ordered = np.sort(values if maximised else -values, axis=1)  # the worst first; NaN ends up last
        counted = max(self.tail * count, 1.0)
        weights = np.clip(counted - np.arange(count), 0.0, 1.0) / counted
        total = ordered @ weights
        unknown = np.isnan(values).any(axis=1)
        return np.asarray(np.where(unknown, np.nan, total if maximised else -total))


def aggregate_of(name: str) -> Aggregate | None:
    """The aggregate that a name means, None for the name of a plain metric."""
    found = _PATTERN.fullmatch(name)
    if found is None:
        return None
    form, percent, share, inside = found.groups()
    tail = {"worst": 0.0, "mean": 1.0}.get(form)
    if tail is None:
        tail = int(percent) / 100.0
        if tail <= 0.0:
            return None
    return Aggregate(name, inside.strip(), tail, share is not None)


def shares(values: FloatArray, references: Sequence[float] | FloatArray, maximised: bool) -> FloatArray:
    """Shares of the scenarios' references that designs keep, shape (designs, scenarios); 0 where a value is unknown."""
    import numpy as np

    reference = np.asarray(references, dtype=np.float64)
    with np.errstate(all="ignore"):
        kept = values / reference if maximised else reference / values
    return np.where(np.isfinite(kept), kept, 0.0)
