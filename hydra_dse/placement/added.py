"""Placements of other packages: functions in the group `hydra_dse.placements`.

Such a function takes a `Problem` and returns a slot for every component (dies first, then stacks).  It need not look
whether each fits or routes exist: the nearest placement of which both hold is taken, as for our own baselines.  It must
return the same slots whenever it is asked the same: randomness is derived from the problem alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np

from hydra_dse.errors import Fault, InputError
from hydra_dse.placement.problem import IntArray, Problem


def slots_of(algorithm: object, problem: Problem, name: str) -> IntArray:
    """The slots that an added algorithm wishes.

    Raises:
        InputError: it is no function, or returns no distinct slots of the package, one for each component.
    """
    if not callable(algorithm):
        raise InputError(Fault(f"placement {name!r} is no function of a placement problem"))
    found = np.asarray(cast(Callable[[Problem], object], algorithm)(problem))
    count, places = problem.count, problem.graph.size
    if found.shape != (count,) or found.dtype.kind not in "iu":
        raise InputError(Fault(f"placement {name!r} returned {found.dtype} of shape {found.shape}, not {count} slots"))
    if len(np.unique(found)) < count or found.min() < 0 or found.max() >= places:
        raise InputError(Fault(f"placement {name!r} returned {found.tolist()}, not distinct slots of 0..{places - 1}"))
    return found.astype(np.int64)
