"""Shared system prompts and sessions: what is drawn, which blocks it has, and what estimators see of it."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hydra_dse.config import load_workload
from hydra_dse.errors import InputError
from hydra_dse.model.blocks import Model
from hydra_dse.rng import derive
from hydra_dse.workload import (
    JointLengths,
    Lognormal,
    Prefixes,
    RequestClass,
    Think,
    Workload,
    arrival_statistics,
    fixed,
    length_points,
    poisson,
    requests,
)
from hydra_dse.workload.prefixes import geometric_turns, zipf

MODEL = Model("m", "test", 64, 100, ())
SHARED = Prefixes(16, (100, 200), (0.75, 0.25))
CHAT = Prefixes(16, (64,), (1.0,), (0.0, 0.0, 1.0), Think(10.0, 0.0))


def workload(prefixes: Prefixes, lengths=None, rate=2.0) -> Workload:
    classes = (RequestClass("all", lengths or fixed(50, 30)),)
    return Workload("w", (MODEL,), poisson(rate), classes, prefixes=prefixes)


def test_zipf_shares_fall_with_the_rank():
    assert zipf(3, 1.0) == pytest.approx((6 / 11, 3 / 11, 2 / 11))
    assert zipf(2, 0.0) == (0.5, 0.5)


@pytest.mark.parametrize(("mean", "most"), [(1.0, 5), (3.0, 10), (5.5, 10), (4.0, 60)])
def test_falling_turn_shares_have_the_stated_mean(mean, most):
    shares = np.array(geometric_turns(mean, most))
    assert shares.sum() == pytest.approx(1.0)
    assert float(shares @ np.arange(1, most + 1)) == pytest.approx(mean, rel=1e-6)
    assert (np.diff(shares) <= 1e-12).all()


def test_more_turns_than_falling_shares_allow_are_refused():
    with pytest.raises(InputError, match="raise the maximum"):
        geometric_turns(8.0, 10)


def test_system_prompts_lengthen_prompts_by_their_popularity():
    drawn = requests(workload(SHARED), 4000, derive(1))
    assert set(drawn.prompt_tokens.tolist()) == {150, 250}
    assert (drawn.prompt_tokens == 150).mean() == pytest.approx(0.75, abs=0.03)
    assert drawn.parent is None


def test_requests_share_ids_exactly_in_the_full_blocks_of_their_system_prompt():
    drawn = requests(workload(SHARED), 300, derive(2))
    short = [blocks for blocks, prompt in zip(drawn.blocks, drawn.prompt_tokens, strict=True) if prompt == 150]
    first, second = short[:2]
    assert len(first) == (150 + 30) // 16
    assert first[: 100 // 16].tolist() == second[: 100 // 16].tolist()
    assert not set(first[100 // 16 :].tolist()) & set(second[100 // 16 :].tolist())


def test_a_turn_repeats_all_that_came_before_it():
    drawn = requests(workload(CHAT), 2000, derive(3))
    for turn, before in enumerate(drawn.parent.tolist()):
        if before >= 0:
            assert drawn.prompt_tokens[turn] == drawn.prompt_tokens[before] + 30 + 50
            history = drawn.blocks[before].tolist()
            assert drawn.blocks[turn][: len(history)].tolist() == history


def test_turns_come_a_think_time_after_one_another():
    drawn = requests(workload(CHAT), 2000, derive(4))
    later = drawn.parent >= 0
    gap = drawn.arrival_s[later] - drawn.arrival_s[drawn.parent[later]]
    assert gap == pytest.approx(10.0)
    assert (drawn.think_s[later] == 10.0).all()


def test_a_draw_starts_in_the_midst_of_sessions_at_the_full_rate():
    drawn = requests(workload(CHAT, rate=20.0), 6000, derive(5))
    first, last = (int(((drawn.arrival_s >= t) & (drawn.arrival_s < t + 20)).sum()) for t in (0.0, 240.0))
    assert first == pytest.approx(400, abs=5 * 20 * 1.8)
    assert last == pytest.approx(400, abs=5 * 20 * 1.8)


def test_the_same_seed_draws_the_same_sessions():
    first, second = (requests(workload(CHAT), 100, derive(6)) for _ in range(2))
    assert first.arrival_s.tolist() == second.arrival_s.tolist()
    assert [b.tolist() for b in first.blocks] == [b.tolist() for b in second.blocks]


def test_length_points_weigh_all_turns_alike():
    """Three turns: prompts of 64 + 50, + 80, + 160."""
    points = length_points(workload(CHAT))
    assert points.mean(points.prompt_tokens) == pytest.approx(114 + 80)
    assert sorted(set(points.prompt_tokens.tolist())) == [114.0, 194.0, 274.0]


def test_length_points_and_draws_agree_in_their_moments():
    lengths = JointLengths(Lognormal(200, 1.0, maximum=3000), Lognormal(100, 0.8, maximum=2000))
    chat = workload(Prefixes(16, (500, 900), (0.5, 0.5), geometric_turns(4, 20), Think(5.0)), lengths)
    points, drawn = length_points(chat), requests(chat, 40_000, derive(7))
    assert points.mean(points.prompt_tokens) == pytest.approx(drawn.prompt_tokens.mean(), rel=0.04)
    square = float((drawn.prompt_tokens.astype(float) ** 2).mean())
    assert points.mean(points.prompt_tokens**2) == pytest.approx(square, rel=0.08)
    assert points.mean(points.output_tokens) == pytest.approx(drawn.output_tokens.mean(), rel=0.04)


def test_the_rate_counts_turns():
    drawn = requests(workload(CHAT, rate=3.0), 9000, derive(8))
    assert len(drawn) / drawn.arrival_s[-1] == pytest.approx(3.0, rel=0.06)
    assert arrival_statistics(workload(CHAT, rate=3.0)).rate_per_s == 3.0


def test_prefixes_are_written_in_yaml(tmp_path: Path):
    path = tmp_path / "w.yaml"
    path.write_text(
        "model: zamba2-7b\narrivals: {process: poisson, rate: 1 req/s}\nlengths: {prompt: 50, output: 30}\n"
        "prefixes:\n  block_tokens: 32\n  system_prompts: {tokens: [300, 100], zipf: 0}\n"
        "  sessions: {turns: 2, think: {mean: 4 s, cv: 0}}\n"
    )
    assert load_workload(path).prefixes == Prefixes(32, (300, 100), (0.5, 0.5), (0.0, 1.0), Think(4.0, 0.0))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("prefixes: {system_prompts: {tokens: [5, 6], count: 3}}", "3 prompts, but 2 lengths"),
        ("prefixes: {sessions: {turns: {mean: 9, maximum: 10}, think: {mean: 1 s}}}", "maximum of at least 17"),
        ("prefixes: {}\nshifts: [{at: 1 s, rate_factor: 2}]", "do not go with shifts"),
        ("prefixes: {system_promts: {tokens: 5}}", "system_prompts"),
    ],
)
def test_wrong_prefixes_are_named_with_their_place(tmp_path: Path, text, message):
    path = tmp_path / "w.yaml"
    path.write_text(
        "model: zamba2-7b\narrivals: {process: poisson, rate: 1 req/s}\nlengths: {prompt: 50, output: 30}\n"
        + text
        + "\n"
    )
    with pytest.raises(InputError, match=message) as caught:
        load_workload(path)
    assert "w.yaml:4" in str(caught.value)


CHATS = (
    {
        "chat_id": 7,
        "parent_chat_id": -1,
        "timestamp": 0,
        "input_length": 40,
        "output_length": 10,
        "hash_ids": [1, 2, 3],
    },
    {"chat_id": 8, "parent_chat_id": -1, "timestamp": 2, "input_length": 20, "output_length": 10, "hash_ids": [9, 8]},
    {
        "chat_id": 9,
        "parent_chat_id": 7,
        "timestamp": 6,
        "input_length": 70,
        "output_length": 5,
        "hash_ids": [1, 2, 3, 4, 5],
    },
)


def trace_workload(folder: Path, more: str = "") -> Workload:
    (folder / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in CHATS))
    (folder / "w.yaml").write_text(f"model: zamba2-7b\narrivals: {{trace: t.jsonl{more}}}\n")
    return load_workload(folder / "w.yaml")


def test_recorded_chats_become_sessions_whose_think_time_leaves_the_answer_out(tmp_path: Path):
    record = trace_workload(tmp_path, ", sessions: true, answer_time_per_token: 100 ms").replay
    assert record.parent.tolist() == [-1, -1, 0]
    assert record.think_s.tolist() == [0.0, 0.0, 5.0]
    assert record.block_tokens == 16


def test_recorded_chats_stand_alone_unless_sessions_are_asked_for(tmp_path: Path):
    assert trace_workload(tmp_path).replay.parent is None


def test_a_window_that_leaves_the_turn_before_out_starts_a_session_anew(tmp_path: Path):
    replay = trace_workload(tmp_path, ", sessions: true")
    assert requests(replay, 2, derive(0), start_share=0.5).parent.tolist() == [-1, -1]
    assert requests(replay, 3, derive(0), start_share=0.0).parent.tolist() == [-1, -1, 0]


def test_a_trace_without_chats_has_no_sessions(tmp_path: Path):
    (tmp_path / "t.jsonl").write_text('{"timestamp": 0, "input_length": 4, "output_length": 1}\n' * 2)
    (tmp_path / "w.yaml").write_text("model: zamba2-7b\narrivals: {trace: t.jsonl, sessions: true}\n")
    with pytest.raises(InputError, match="names no turns of a chat"):
        load_workload(tmp_path / "w.yaml")


def test_a_workload_without_prefixes_draws_what_it_always_drew():
    plain = replace(workload(SHARED), prefixes=None)
    assert requests(plain, 5, derive(1)).blocks is None
