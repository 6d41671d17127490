"""Arrival processes: rate and burstiness against theory, within confidence intervals of the sample."""

import math

import numpy as np
import pytest

from hydra_dse.errors import InputError
from hydra_dse.rng import derive
from hydra_dse.workload import Deterministic, Diurnal, Mmpp, Piecewise, Renewal, Replay, poisson

PROCESSES = {
    "deterministic": Deterministic(2.0),
    "poisson": poisson(3.0),
    "gamma, smooth": Renewal(2.0, 0.5),
    "gamma, bursty": Renewal(2.0, 2.0),
    "mmpp": Mmpp((5.0, 0.5), (10.0, 20.0)),
    "on-off": Mmpp((8.0, 0.0), (2.0, 6.0)),
    "piecewise": Piecewise((1.0, 4.0), (400.0, 200.0)),
    "diurnal": Diurnal(2.0, 0.8, 1000.0),
    "replay": Replay(np.array([0.0, 0.1, 0.2, 3.0, 3.1, 7.0])),
}


def batch_interval(values, batches=40):
    """99.9 % interval of the mean from batch means (t quantile of 39 degrees of freedom)."""
    means = values[: len(values) // batches * batches].reshape(batches, -1).mean(axis=1)
    half = 3.56 * means.std(ddof=1) / math.sqrt(batches)
    return means.mean() - half, means.mean() + half


@pytest.mark.parametrize("name", PROCESSES)
def test_times_ascend_from_zero_and_repeat_for_the_same_stream(name):
    process = PROCESSES[name]
    times = process.sample(5000, derive(1, name))
    assert len(times) == 5000
    assert times[0] >= 0
    assert (np.diff(times) >= 0).all()
    assert np.isfinite(times).all()
    assert (times == process.sample(5000, derive(1, name))).all()


@pytest.mark.parametrize("name", [name for name in PROCESSES if name != "replay"])
def test_the_mean_gap_of_a_sample_covers_the_inverse_of_the_rate(name):
    process = PROCESSES[name]
    gaps = np.diff(process.sample(400_001, derive(2, name)))
    low, high = batch_interval(gaps)
    assert low - 1e-9 <= 1 / process.statistics().rate_per_s <= high + 1e-9


@pytest.mark.parametrize("name", ["poisson", "gamma, smooth", "gamma, bursty", "mmpp", "on-off"])
def test_the_second_moment_of_the_gaps_covers_the_stated_cv(name):
    process = PROCESSES[name]
    statistics = process.statistics()
    gaps = np.diff(process.sample(400_001, derive(3, name)))
    low, high = batch_interval(gaps**2)
    assert low <= (1 + statistics.cv**2) / statistics.rate_per_s**2 <= high


@pytest.mark.parametrize("name", ["piecewise", "diurnal"])
def test_the_cv_of_a_slow_rate_agrees_with_that_of_separate_steps(name):
    process = PROCESSES[name]
    gaps = np.diff(process.sample(400_001, derive(4, name)))
    assert gaps.std() / gaps.mean() == pytest.approx(process.statistics().cv, rel=0.02)


def test_the_cv_of_an_on_off_process_is_that_of_the_interrupted_poisson_process():
    # The gaps of an interrupted Poisson process are hyperexponential (Kuczura 1973), with
    # c² = 1 + 2·λ·ω/(σ + ω)² for on-rate λ, on → off rate ω, off → on rate σ.
    rate, leave, enter = 8.0, 1 / 2.0, 1 / 6.0
    expected = math.sqrt(1 + 2 * rate * leave / (enter + leave) ** 2)
    assert Mmpp((rate, 0.0), (1 / leave, 1 / enter)).cv == pytest.approx(expected, rel=1e-12)


def test_an_mmpp_with_equal_rates_is_poisson():
    assert Mmpp((3.0, 3.0), (1.0, 5.0)).cv == pytest.approx(1.0, rel=1e-12)


def test_an_mmpp_with_very_long_phases_mixes_two_poisson_processes():
    # A share q of the gaps is exponential of rate 4, the rest of rate 1.
    q = 4 / 5
    mean, second = q / 4 + (1 - q), 2 * (q / 16 + (1 - q))
    slow = Mmpp((4.0, 1.0), (1e7, 1e7))
    assert slow.cv == pytest.approx(math.sqrt(second / mean**2 - 1), rel=1e-5)


def test_an_mmpp_with_very_short_phases_is_poisson_of_the_mean_rate():
    fast = Mmpp((4.0, 1.0), (1e-6, 1e-6))
    assert fast.rate_per_s == 2.5
    assert fast.cv == pytest.approx(1.0, abs=1e-5)


def test_mmpp_phases_are_reported_with_their_rates_and_sojourns():
    assert PROCESSES["mmpp"].statistics().phases == ((5.0, 10.0), (0.5, 20.0))


@pytest.mark.parametrize("name", PROCESSES)
def test_another_rate_keeps_the_burstiness(name):
    process = PROCESSES[name]
    faster = process.with_rate(7.0)
    assert faster.statistics().rate_per_s == pytest.approx(7.0, rel=1e-12)
    assert faster.statistics().cv == pytest.approx(process.statistics().cv, rel=1e-9)


def test_a_deterministic_process_starts_at_zero_and_keeps_its_interval():
    assert Deterministic(100.0).sample(4, derive(0)).tolist() == [0.0, 0.01, 0.02, 0.03]


@pytest.mark.parametrize("process", [Piecewise((1.0, 4.0), (100.0, 50.0)), Piecewise((0.0, 2.0), (30.0, 30.0))])
def test_a_piecewise_rate_puts_each_steps_share_of_arrivals_into_the_step(process):
    times = process.sample(60_000, derive(5, "steps")) % sum(process.lengths_s)
    first = (times < process.lengths_s[0]).mean()
    expected = process.rates_per_s[0] * process.lengths_s[0] / np.dot(process.rates_per_s, process.lengths_s)
    assert first == pytest.approx(expected, abs=4 * math.sqrt(0.25 / 60_000))


def test_a_diurnal_rate_peaks_at_a_quarter_of_its_period():
    wave = Diurnal(2.0, 0.5, 1000.0)
    times = wave.sample(100_000, derive(6, "wave")) % 1000.0
    # Share of arrivals in the first half: 1/2 + amplitude/π.
    assert (times < 500.0).mean() == pytest.approx(0.5 + 0.5 / math.pi, abs=4 * math.sqrt(0.25 / 100_000))


def test_a_phase_shifts_the_start_of_the_wave():
    late = Diurnal(2.0, 0.9, 1000.0, phase_s=500.0)
    times = late.sample(100_000, derive(7, "wave")) % 1000.0
    assert (times < 500.0).mean() == pytest.approx(0.5 - 0.9 / math.pi, abs=4 * math.sqrt(0.25 / 100_000))


def test_a_replay_gives_a_window_of_the_record():
    record = PROCESSES["replay"]
    times, index = record.window(3, 2)
    assert index.tolist() == [2, 3, 4]
    assert times.tolist() == pytest.approx([0.0, 2.8, 2.9])


def test_a_replay_goes_on_at_the_start_one_mean_gap_after_the_end():
    record = Replay(np.array([0.0, 1.0, 4.0]))
    times, index = record.window(7, 0)
    assert index.tolist() == [0, 1, 2, 0, 1, 2, 0]
    assert times.tolist() == [0.0, 1.0, 4.0, 6.0, 7.0, 10.0, 12.0]


def test_a_replay_that_keeps_its_start_begins_when_the_record_does() -> None:
    record = Replay(np.array([0.3, 1.3, 4.3]), keep_start=True)
    assert record.window(3, 0)[0].tolist() == [0.3, 1.3, 4.3]
    assert record.window(2, 1)[0].tolist() == [0.0, 3.0]
    assert record.with_rate(2 * record.rate_per_s).window(2, 0)[0].tolist() == [0.15, 0.65]


def test_different_streams_replay_different_windows():
    record = Replay(np.cumsum(derive(8).exponential(1.0, 10_000)))
    windows = {record.start(100, derive(8, replication)) for replication in range(10)}
    assert len(windows) > 5


def test_replays_are_equal_where_their_times_are():
    times = np.array([0.0, 1.0, 2.5])
    assert Replay(times) == Replay(times.copy())
    assert hash(Replay(times)) == hash(Replay(times.copy()))
    assert Replay(times) != Replay(times * 2)


@pytest.mark.parametrize(
    "make",
    [
        lambda: poisson(0.0),
        lambda: poisson(-1.0),
        lambda: poisson(math.nan),
        lambda: poisson(math.inf),
        lambda: Renewal(1.0, 0.0),
        lambda: Deterministic(0.0),
        lambda: Mmpp((0.0, 0.0), (1.0, 1.0)),
        lambda: Mmpp((1.0, -1.0), (1.0, 1.0)),
        lambda: Mmpp((1.0, 1.0), (0.0, 1.0)),
        lambda: Piecewise((0.0,), (1.0,)),
        lambda: Piecewise((1.0, 2.0), (1.0,)),
        lambda: Diurnal(1.0, 1.5),
        lambda: Replay(np.array([1.0])),
        lambda: Replay(np.array([1.0, 1.0])),
    ],
)
def test_an_impossible_process_is_an_input_error(make):
    with pytest.raises(InputError):
        make()
