"""Arrival processes of other packages: makers in the group `hydra_dse.arrivals`.

A maker takes the mean rate and the options of the workload file and returns an `Arrivals`.  The estimator sees it
through `statistics()` (rate, CV of the gaps, phases), simulations through `sample()`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

from hydra_dse import extensions
from hydra_dse.errors import Fault, InputError
from hydra_dse.workload.nouns import Arrivals

METHODS = ("sample", "statistics", "with_rate")
Options = Mapping[str, float | bool | str]


def added_process(name: str, rate_per_s: float, options: Options) -> Arrivals:
    """The process of a name at a mean rate.

    Raises:
        InputError: no such process, or its maker refuses the options or returns something else.
    """
    maker = extensions.find(extensions.ARRIVALS, name)
    if not callable(maker):
        raise InputError(Fault(f"arrival process {name!r} of {extensions.ARRIVALS} is no function that makes one"))
    try:
        made = cast(Callable[[float, Options], object], maker)(rate_per_s, options)
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(Fault(f"arrival process {name!r} refuses its options: {error}")) from error
    lacking = [method for method in METHODS if not callable(getattr(made, method, None))]
    if lacking:
        raise InputError(Fault(f"arrival process {name!r} made a {type(made).__name__} without {lacking[0]}()"))
    return cast(Arrivals, made)
