"""Workloads that change in time as pieces, and windows of a record that start where they are told to."""

import numpy as np
import pytest

from hydra_dse.errors import InputError
from hydra_dse.model.blocks import Model
from hydra_dse.rng import derive
from hydra_dse.workload import (
    Diurnal,
    Empirical,
    Piecewise,
    Renewal,
    Replay,
    RequestClass,
    Requests,
    Shift,
    Workload,
    arrival_statistics,
    fixed,
    length_points,
    pieces,
    poisson,
    requests,
)

MODEL = Model("m", "test", 64, 100, ())
ONE = (RequestClass("chat", fixed(10, 20)),)
TWO = (RequestClass("chat", fixed(10, 20), 0.5), RequestClass("book", fixed(300, 2), 0.5))


def record(times, prompt, output=None):
    prompt = np.asarray(prompt, dtype=np.int64)
    output = prompt if output is None else np.asarray(output, dtype=np.int64)
    rows = Requests(np.asarray(times, dtype=float), prompt, output, np.zeros(len(prompt), dtype=np.int64))
    kinds = (RequestClass("all", Empirical(prompt, output)),)
    return Workload("replay", (MODEL,), Replay(rows.arrival_s), kinds, replay=rows)


def test_pieces_of_a_workload_are_found_once_and_those_of_an_equal_one_are_equal():
    first, second = (Workload("calm", (MODEL,), poisson(2.0), ONE) for _ in range(2))
    assert pieces(first) is pieces(first)
    assert pieces(first)[0].arrivals == pieces(second)[0].arrivals
    assert pieces(first)[0].arrivals.rate_per_s == 2.0


def swing(count=6000):
    """A record whose rate doubles and whose prompts triple half way."""
    rng = derive(3, "swing")
    gaps = rng.exponential(1.0, count) * np.where(np.arange(count) < count // 2, 1.0, 0.5)
    return record(np.cumsum(gaps) - gaps[0], np.where(np.arange(count) < count // 2, 100, 300))


def test_a_stationary_workload_is_one_endless_piece_with_its_own_statistics():
    workload = Workload("still", (MODEL,), Renewal(3.0, 1.5), TWO)
    [piece] = pieces(workload)
    assert piece.duration_s == np.inf
    assert piece.share == 1.0
    assert piece.arrivals == arrival_statistics(workload)
    assert piece.lengths.prompt_tokens.tolist() == length_points(workload).prompt_tokens.tolist()
    assert piece.path is None


def test_steps_of_the_rate_are_pieces_that_weigh_by_their_requests():
    workload = Workload("steps", (MODEL,), Piecewise((1.0, 4.0), (30.0, 10.0)), ONE)
    first, second = pieces(workload)
    assert (first.arrivals.rate_per_s, second.arrivals.rate_per_s) == (1.0, 4.0)
    assert (first.duration_s, second.duration_s) == (30.0, 10.0)
    assert first.share == pytest.approx(30 / 70)


def test_a_step_without_arrivals_lasts_but_weighs_nothing():
    busy, idle = pieces(Workload("steps", (MODEL,), Piecewise((2.0, 0.0), (10.0, 90.0)), ONE))
    assert idle.duration_s == 90.0
    assert idle.share < 1e-4
    assert busy.share == pytest.approx(1.0, abs=1e-4)


def test_a_daily_wave_keeps_its_requests_in_equal_slices_of_the_day():
    workload = Workload("day", (MODEL,), Diurnal(2.0, 0.8, 1200.0), ONE)
    found = pieces(workload)
    assert {round(piece.duration_s, 6) for piece in found} == {100.0}
    assert sum(piece.arrivals.rate_per_s * piece.duration_s for piece in found) == pytest.approx(2400.0)
    # ∫ of 2(1 + 0.8·sin(2πt/1200)) over the first slice.
    first = 2 * (100 + 0.8 * 1200 / (2 * np.pi) * (1 - np.cos(2 * np.pi / 12)))
    assert found[0].arrivals.rate_per_s * 100 == pytest.approx(first, rel=1e-6)


def test_shifts_that_repeat_give_a_piece_per_phase_with_its_own_mix():
    shifts = (Shift(60.0, (0.1, 0.9), 3.0),)
    workload = Workload("mix", (MODEL,), poisson(2.0), TWO, shifts=shifts, cycle_s=100.0)
    first, second = pieces(workload)
    assert (first.class_shares, second.class_shares) == ((0.5, 0.5), (0.1, 0.9))
    assert (first.duration_s, second.duration_s) == (60.0, pytest.approx(40.0))
    assert second.arrivals.rate_per_s == pytest.approx(6.0)
    assert first.share == pytest.approx(120 / 360)
    assert second.lengths.mean(second.lengths.prompt_tokens) == pytest.approx(0.1 * 10 + 0.9 * 300)


def test_a_shift_that_holds_for_ever_leaves_one_piece():
    workload = Workload("mix", (MODEL,), poisson(2.0), TWO, shifts=(Shift(60.0, (0.1, 0.9)),))
    [piece] = pieces(workload)
    assert piece.class_shares == (0.1, 0.9)


def test_windows_of_a_record_keep_its_requests_its_time_and_its_tokens():
    workload = swing()
    found = pieces(workload)
    rows = workload.replay
    assert len(found) == 6
    assert sum(piece.share for piece in found) == pytest.approx(1.0)
    span = rows.arrival_s[-1] * 6000 / 5999
    assert sum(piece.duration_s for piece in found) == pytest.approx(span)
    mean = sum(piece.share * piece.lengths.mean(piece.lengths.prompt_tokens) for piece in found)
    assert mean == pytest.approx(rows.prompt_tokens.mean())
    assert sum(len(piece.path.gap_s) for piece in found) == 6000
    assert sum(piece.path.gap_s.sum() for piece in found) == pytest.approx(rows.arrival_s[-1])


def test_windows_of_a_record_tell_its_phases_apart():
    found = pieces(swing())
    rates = [piece.arrivals.rate_per_s for piece in found]
    assert max(rates[:3]) < 1.2 < 1.7 < min(rates[3:])
    # Inside a window the process is Poisson although the record as a whole is not; 5 standard errors.
    assert [piece.arrivals.cv for piece in found] == pytest.approx([1.0] * 6, abs=5 / np.sqrt(1000))


def test_a_short_record_is_one_window_of_finite_length():
    [piece] = pieces(record([0.0, 1.0, 5.0], [10, 20, 30]))
    assert piece.duration_s == pytest.approx(7.5)
    assert piece.path.prompt_tokens.tolist() == [10, 20, 30]


def test_a_very_long_record_joins_neighbours_and_loses_no_token():
    count = 50_000
    found = pieces(record(np.arange(count) / 10, np.full(count, 7)))
    joined = [piece.path for piece in found]
    assert sum(len(path.gap_s) for path in joined) <= 20_000
    assert sum((path.count * path.prompt_tokens).sum() for path in joined) == pytest.approx(7 * count)


def test_windows_that_start_evenly_cover_a_record_once():
    workload = record(np.arange(90.0), np.arange(1, 91))
    found = [requests(workload, 30, derive(1, "requests", number), number / 3) for number in range(3)]
    assert np.concatenate([one.prompt_tokens for one in found]).tolist() == list(range(1, 91))


def test_a_window_that_starts_late_goes_on_at_the_beginning():
    found = requests(record(np.arange(10.0), np.arange(1, 11)), 10, derive(1), 0.5)
    assert found.prompt_tokens.tolist() == [6, 7, 8, 9, 10, 1, 2, 3, 4, 5]
    assert (np.diff(found.arrival_s) > 0).all()


def test_a_start_beyond_the_record_is_refused():
    with pytest.raises(InputError, match="share"):
        requests(record(np.arange(10.0), np.arange(1, 11)), 5, derive(1), 1.0)
