"""Events at exact instants.

SimPy adds a delay to the clock, so an event planned for time `t` may fire one rounding error off it, and a run
that jumps over a stretch of iterations would drift from one that walks through it.  `t − now` is exact, and so is the
sum back to `t`, once `now ≥ t/2` (Sterbenz); from earlier on, a hop to between the two comes first.
"""

from __future__ import annotations

from typing import Any

import simpy


def at(env: simpy.Environment, time_s: float, value: Any = None) -> simpy.Event:
    """Return an event that fires at exactly `time_s` (not earlier than now)."""
    now = env.now
    if 2.0 * now >= time_s:
        return env.timeout(max(time_s - now, 0.0), value)
    done = env.event()

    def finish(_: simpy.Event) -> None:
        done.succeed(value)

    def rest(_: simpy.Event) -> None:
        at(env, time_s).callbacks.append(finish)

    env.timeout(0.75 * time_s - now).callbacks.append(rest)
    return done
