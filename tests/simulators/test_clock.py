"""Events at exact instants, whatever the clock shows before."""

from __future__ import annotations

import simpy
from hypothesis import given
from hypothesis import strategies as st

from simulators.clock import at

times = st.floats(0.0, 1e6, allow_nan=False)


@given(times, times)
def test_an_event_fires_at_its_instant_to_the_last_bit(first: float, second: float) -> None:
    env = simpy.Environment()
    seen = []

    def process():
        for instant in sorted((first, second)):
            yield at(env, instant)
            seen.append(env.now)

    env.process(process())
    env.run()
    assert seen == sorted((first, second))


def test_an_instant_that_no_single_delay_reaches_is_reached() -> None:
    """From 0.1741 (an odd multiple of half the spacing near 0.48), every sum rounds to an even neighbour."""
    env = simpy.Environment()
    target = 0.4808333960039864
    seen = []

    def process():
        yield at(env, 0.17407289600398648)
        yield at(env, target)
        seen.append(env.now)

    env.process(process())
    env.run()
    assert seen == [target]


def test_an_instant_that_has_passed_fires_now() -> None:
    env = simpy.Environment(initial_time=2.0)
    at(env, 1.0)
    env.run()
    assert env.now == 2.0
