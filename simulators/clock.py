"""Events at exact instants.

SimPy adds a delay to the clock, so an event planned for time `t` may fire one rounding error off it, and a run
that jumps over a stretch of iterations would drift from one that walks through it.  `at` picks the delay that
lands on `t` to the last bit.
"""

from __future__ import annotations

import math
from typing import Any

import simpy


def at(env: simpy.Environment, time_s: float, value: Any = None) -> simpy.Timeout:
    """Return an event that fires at exactly `time_s` (not earlier than now)."""
    return env.timeout(exact_delay(env.now, time_s), value)


def exact_delay(now_s: float, time_s: float) -> float:
    """Return the delay `d ≥ 0` for which `now_s + d` rounds to `time_s`.

    It exists because doubles near `d ≤ time_s` are spaced no wider than near `time_s`.
    """
    delay = max(time_s - now_s, 0.0)
    while now_s + delay < time_s:
        delay = math.nextafter(delay, math.inf)
    while now_s + delay > time_s and delay > 0.0:
        delay = math.nextafter(delay, 0.0)
    return delay
