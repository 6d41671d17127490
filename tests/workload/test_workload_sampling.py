"""Mixes, shifts and replays as requests, points and statistics."""

import math
from dataclasses import replace

import numpy as np
import pytest

from hydra_dse.errors import InputError
from hydra_dse.model.blocks import Model
from hydra_dse.rng import derive
from hydra_dse.workload import (
    Deterministic,
    Empirical,
    JointLengths,
    Lognormal,
    Replay,
    RequestClass,
    Requests,
    Shift,
    Workload,
    arrival_statistics,
    at_rate,
    context_notes,
    fixed,
    length_points,
    long_run_shares,
    poisson,
    requests,
)

MODEL = Model("m", "test", 64, 100, (), max_position_embeddings=1000)
CLASSES = (RequestClass("chat", fixed(10, 20), 0.25), RequestClass("book", fixed(300, 2), 0.75))
MIX = Workload("mix", (MODEL,), poisson(2.0), CLASSES)


def recorded(count=50, blocks=None):
    times = np.cumsum(derive(1, "record").exponential(0.5, count))
    record = Requests(
        times - times[0], np.arange(1, count + 1), np.arange(count) + 100, np.zeros(count, dtype=np.int64), blocks
    )
    lengths = Empirical(record.prompt_tokens, record.output_tokens)
    return Workload("replay", (MODEL,), Replay(record.arrival_s), (RequestClass("all", lengths),), replay=record)


def test_classes_appear_by_their_shares_with_their_own_lengths():
    drawn = requests(MIX, 20_000, derive(2))
    chat = drawn.class_index == 0
    assert chat.mean() == pytest.approx(0.25, abs=4 * math.sqrt(0.25 * 0.75 / 20_000))
    assert set(drawn.prompt_tokens[chat].tolist()) == {10}
    assert set(drawn.prompt_tokens[~chat].tolist()) == {300}


def test_points_of_a_mix_weigh_the_classes():
    points = length_points(MIX)
    assert dict(zip(points.prompt_tokens, points.weight, strict=True)) == {10.0: 0.25, 300.0: 0.75}
    assert length_points(MIX, 0).prompt_tokens.tolist() == [10.0]


def test_points_of_many_classes_stay_few():
    kinds = tuple(
        RequestClass(str(i), JointLengths(Lognormal(100 + i, 1.0), Lognormal(50, 1.0)), 0.2) for i in range(5)
    )
    points = length_points(replace(MIX, classes=kinds))
    assert len(points.weight) <= 2000
    assert points.mean(points.prompt_tokens) == pytest.approx(102.0, rel=1e-3)


def test_the_same_stream_gives_the_same_requests():
    first, second = (requests(MIX, 500, derive(3)) for _ in range(2))
    assert (first.arrival_s == second.arrival_s).all()
    assert (first.class_index == second.class_index).all()


def test_another_rate_changes_times_alone():
    slow, fast = requests(MIX, 500, derive(4)), requests(at_rate(MIX, 20.0), 500, derive(4))
    assert fast.arrival_s.tolist() == pytest.approx((slow.arrival_s / 10).tolist())
    assert (fast.prompt_tokens == slow.prompt_tokens).all()
    assert (fast.class_index == slow.class_index).all()


def test_other_lengths_leave_times_and_classes():
    kinds = (RequestClass("chat", JointLengths(Lognormal(50, 1.0), Lognormal(50, 1.0)), 0.25), CLASSES[1])
    first, second = requests(MIX, 500, derive(5)), requests(replace(MIX, classes=kinds), 500, derive(5))
    assert (first.arrival_s == second.arrival_s).all()
    assert (first.class_index == second.class_index).all()


def test_a_replay_keeps_order_and_pairs_of_the_record():
    drawn = requests(recorded(), 20, derive(6))
    assert (drawn.output_tokens == drawn.prompt_tokens + 99).all()
    assert (np.diff(drawn.prompt_tokens) % 50 == 1).all()
    assert drawn.arrival_s[0] == 0.0


def test_a_replay_of_the_whole_record_is_the_record():
    workload = recorded()
    drawn = requests(workload, 50, derive(7))
    assert drawn.arrival_s.tolist() == pytest.approx(workload.replay.arrival_s.tolist())
    assert (drawn.prompt_tokens == workload.replay.prompt_tokens).all()


def test_a_replay_at_another_rate_scales_time():
    workload = at_rate(recorded(), 10.0)
    assert arrival_statistics(workload).rate_per_s == pytest.approx(10.0)
    drawn = requests(workload, 50, derive(8))
    assert 49 / drawn.arrival_s[-1] == pytest.approx(10.0)


def test_a_replay_carries_the_prefix_blocks_of_its_requests():
    drawn = requests(recorded(5, tuple((i,) for i in range(5))), 3, derive(9))
    assert [block[0] + 1 for block in drawn.blocks] == drawn.prompt_tokens.tolist()


def test_a_replay_without_its_arrival_process_is_an_input_error():
    with pytest.raises(InputError, match="replay of their arrival times"):
        requests(replace(recorded(), arrivals=poisson(1.0)), 5, derive(0))


SWING = replace(MIX, shifts=(Shift(100.0, (1.0, 0.0), 3.0),), cycle_s=200.0)


def test_a_shift_changes_mix_and_rate_at_its_time():
    drawn = requests(replace(MIX, shifts=(Shift(1000.0, (1.0, 0.0), 3.0),)), 20_000, derive(10))
    before, after = drawn.arrival_s < 1000.0, drawn.arrival_s >= 1000.0
    assert before.sum() == pytest.approx(2000, abs=4 * math.sqrt(2000))
    assert after.sum() / (drawn.arrival_s[-1] - 1000.0) == pytest.approx(6.0, rel=4 / math.sqrt(18_000))
    assert (drawn.class_index[before] == 0).mean() == pytest.approx(0.25, abs=0.04)
    assert (drawn.class_index[after] == 0).all()


def test_a_repeating_shift_has_the_long_run_rate_and_shares_of_its_phases():
    # Half the time 2/s with a quarter chat, half the time 6/s with chat alone.
    assert arrival_statistics(SWING).rate_per_s == pytest.approx(4.0)
    assert long_run_shares(SWING) == pytest.approx(((0.25 * 2 + 6) / 8, 0.75 * 2 / 8))
    drawn = requests(SWING, 100_000, derive(11))
    assert len(drawn) / drawn.arrival_s[-1] == pytest.approx(4.0, rel=0.02)
    assert (drawn.class_index == 0).mean() == pytest.approx(6.5 / 8, abs=0.01)


def test_the_cv_of_a_repeating_shift_agrees_with_a_sample():
    gaps = np.diff(requests(SWING, 200_000, derive(12)).arrival_s)
    assert gaps.std() / gaps.mean() == pytest.approx(arrival_statistics(SWING).cv, rel=0.03)


def test_a_shifting_workload_at_another_rate_has_that_rate():
    assert arrival_statistics(at_rate(SWING, 9.0)).rate_per_s == pytest.approx(9.0)


def test_a_last_shift_holds_for_ever():
    shifted = replace(MIX, shifts=(Shift(100.0, (0.5, 0.5), 2.0),))
    assert long_run_shares(shifted) == (0.5, 0.5)
    assert arrival_statistics(shifted).rate_per_s == 4.0


def test_a_phase_without_arrivals_stays_empty():
    pause = replace(MIX, arrivals=Deterministic(1.0), shifts=(Shift(10.0, None, 0.0), Shift(20.0)), cycle_s=40.0)
    at = requests(pause, 500, derive(13)).arrival_s % 40.0
    assert not ((at > 10.0 + 1e-9) & (at < 20.0 - 1e-9)).any()


@pytest.mark.parametrize(
    "bad",
    [
        {"shifts": (Shift(10.0), Shift(5.0))},
        {"shifts": (Shift(10.0, (1.0,)),)},
        {"shifts": (Shift(10.0, None, -1.0),)},
        {"shifts": (Shift(10.0, None, 0.0),)},
        {"shifts": (Shift(10.0),), "cycle_s": 10.0},
    ],
)
def test_impossible_shifts_are_an_input_error(bad):
    with pytest.raises(InputError):
        requests(replace(MIX, **bad), 10, derive(0))


@pytest.mark.parametrize("rate", [0.0, -1.0, math.nan, math.inf])
def test_an_impossible_rate_is_an_input_error(rate):
    with pytest.raises(InputError, match="finite number above zero"):
        at_rate(MIX, rate)


def test_no_requests_are_an_input_error():
    with pytest.raises(InputError, match="at least 1"):
        requests(MIX, 0, derive(0))


def test_requests_beyond_the_models_positions_are_noted_with_their_share():
    assert context_notes(MIX) == ()
    small = replace(MODEL, max_position_embeddings=100)
    (note,) = context_notes(replace(MIX, models=(small,)))
    assert note.startswith("100.00 % of the requests of class 'book'")
    assert "100 positions" in note
    assert context_notes(replace(MIX, models=(replace(MODEL, max_position_embeddings=None),))) == ()


def test_a_replay_notes_its_own_share_beyond_the_positions():
    (note,) = context_notes(replace(recorded(), models=(replace(MODEL, max_position_embeddings=190),)))
    # prompt i + output i + 99 > 190 for i = 46 … 50.
    assert note.startswith("10.00 % of the requests")
