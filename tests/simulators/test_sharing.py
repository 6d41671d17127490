"""Fair sharing of resources between jobs: against arithmetic and against the definition of fairness."""

from __future__ import annotations

import numpy as np
import pytest
import simpy
from hypothesis import given, settings
from hypothesis import strategies as st

from simulators.noi import FluidProcessor, fair_speeds


def test_two_equal_jobs_on_one_resource_get_half_each() -> None:
    assert fair_speeds(np.array([[1.0], [1.0]])) == pytest.approx([0.5, 0.5])


def test_a_light_user_keeps_its_share_and_the_heavy_one_gets_the_rest() -> None:
    assert fair_speeds(np.array([[1.0], [0.2]])) == pytest.approx([0.8, 1.0])


def test_jobs_that_together_fit_run_at_full_speed() -> None:
    assert fair_speeds(np.array([[0.6, 0.1], [0.4, 0.9]])) == pytest.approx([1.0, 1.0])


def test_a_job_limited_elsewhere_leaves_its_share_to_the_other() -> None:
    # On resource 1 the second job takes little because the third holds it back on resource 2:
    # s2 = 0.5/0.9 on resource 2, so resource 1 leaves 1 − 0.5·0.5/0.9 to the first.
    usage = np.array([[1.0, 0.0], [0.5, 0.9], [0.0, 0.9]])
    second = 0.5 / 0.9
    assert fair_speeds(usage) == pytest.approx([1.0 - 0.5 * second, second, second])


def test_two_jobs_with_a_small_share_each_on_a_third_jobs_resource() -> None:
    # 1 + 0.2 + 0.3 > 1: the two light ones keep 0.2 and 0.3, the heavy one gets 0.5.
    assert fair_speeds(np.array([[1.0], [0.2], [0.3]])) == pytest.approx([0.5, 1.0, 1.0])


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.integers(2, 5), st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_every_allocation_is_feasible_and_every_slowed_job_has_a_bottleneck(
    jobs: int, resources: int, seed: int
) -> None:
    usage = np.random.default_rng(seed).uniform(0.0, 1.0, (jobs, resources))
    speeds = fair_speeds(usage)
    taken = speeds[:, None] * usage
    load = taken.sum(axis=0)
    assert (load <= 1.0 + 1e-9).all()
    assert (speeds > 0.0).all()
    full = load >= 1.0 - 1e-6
    for job in np.flatnonzero(speeds < 1.0 - 1e-9):
        largest = taken[job] >= taken.max(axis=0) - 1e-6
        assert (full & largest).any()


class Work:
    def __init__(self, duration_s: float, usage: list[float] | None) -> None:
        self.duration_s = duration_s
        self._usage = None if usage is None else np.array(usage)

    def usage(self) -> np.ndarray | None:
        return self._usage


def _log_of(jobs: list[tuple[float, str, Work]]) -> list[tuple[str, float]]:
    env = simpy.Environment()
    processor = FluidProcessor(env)
    log: list[tuple[str, float]] = []

    def start(at_s: float, name: str, work: Work):
        yield env.timeout(at_s)
        yield processor.run(work)
        log.append((name, env.now))

    for at_s, name, work in jobs:
        env.process(start(at_s, name, work))
    env.run()
    return log


def test_a_job_that_joins_slows_the_first_and_its_end_frees_it() -> None:
    # a alone for 1 s (1 of 2 s done); then both at 1/2: b needs 1 s of work = 2 s; at t=3 a has done 2: both end.
    log = _log_of([(0.0, "a", Work(2.0, [1.0])), (1.0, "b", Work(1.0, [1.0]))])
    assert log == [("a", pytest.approx(3.0)), ("b", pytest.approx(3.0))]


def test_the_end_of_a_short_job_speeds_up_the_long_one() -> None:
    # both at 1/2 until b has done 1 s of work at t=2; a then has 3 s left: ends at 5.
    log = _log_of([(0.0, "a", Work(4.0, [1.0])), (0.0, "b", Work(1.0, [1.0]))])
    assert log == [("b", pytest.approx(2.0)), ("a", pytest.approx(5.0))]


def test_jobs_on_different_resources_do_not_meet() -> None:
    log = _log_of([(0.0, "a", Work(2.0, [1.0, 0.0])), (0.0, "b", Work(1.5, [0.0, 1.0])), (0.0, "c", Work(1.0, None))])
    assert log == [("c", 1.0), ("b", 1.5), ("a", 2.0)]


@pytest.mark.parametrize(("attention_s", "ssm_s"), [(3.0, 1.0), (1.0, 1.0), (0.5, 2.5)])
@pytest.mark.parametrize("batches", [1, 2, 3])
def test_batches_in_flight_over_two_families_match_the_pipeline_bound(
    attention_s: float, ssm_s: float, batches: int
) -> None:
    """`m` batches that each need `t_A` and `t_M` in turn advance once in `max(t_A + t_M, m·max(t_A, t_M))`."""
    total = attention_s + ssm_s
    work = Work(total, [attention_s / total, ssm_s / total])
    log = _log_of([(0.0, f"batch {index}", work) for index in range(batches)])
    expected = max(total, batches * max(attention_s, ssm_s))
    assert [end for _, end in log] == pytest.approx([expected] * batches)


def test_work_is_conserved_when_jobs_come_and_go() -> None:
    """One resource that is never idle does one second of work a second, whoever shares it."""
    rng = np.random.default_rng(5)
    jobs = [(0.0, str(index), Work(float(rng.uniform(0.1, 2.0)), [1.0])) for index in range(20)]
    assert _log_of(jobs)[-1][1] == pytest.approx(sum(work.duration_s for _, _, work in jobs))
