"""Replay of a real vLLM run from the layer profile of the same card, with no parameter fitted to the run.

300 ShareGPT requests at about 10 per second on an RTX 4090, Llama-3.1-8B, saturated, KV memory for 41,408 tokens.  No
host time per step is added: the engine schedules asynchronously, so host work hides behind the card.  Its
prefix cache was on: the log does not say what prompts share, but a preempted request finds what is left of its blocks.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from simulators.profiled import read_profile, read_run
from simulators.serving.replay import Replay, replay

REFERENCE = Path(os.environ.get("HYDRA_DSE_REFERENCE", Path(__file__).parents[3] / "shared" / "reference"))
RUN = REFERENCE / "vllm_logs" / "rtx4090_llama-3.1-8b"

pytestmark = pytest.mark.skipif(not RUN.is_dir(), reason=f"reference data {RUN.name} is not there")
BLOCKS = 32


@pytest.fixture(scope="module")
def found() -> Replay:
    return replay(read_run(RUN), read_profile(RUN / "profile"), BLOCKS)


def test_mean_latencies_of_a_real_engine_are_within_ten_percent(found: Replay) -> None:
    for metric in ("ttft_mean_s", "tpot_mean_s", "e2e_mean_s"):
        assert abs(found.errors()[metric]) <= 0.10, metric


def test_its_ninetieth_percentiles_are_within_fifteen_percent(found: Replay) -> None:
    for metric in ("ttft_p90_s", "tpot_p90_s", "e2e_p90_s"):
        assert abs(found.errors()[metric]) <= 0.15, metric


def test_running_and_waiting_requests_and_kv_share_follow_the_engine_in_time(found: Replay) -> None:
    rms, recorded = found.timeline_rms(), found.recorded
    assert rms["running"] <= 0.2 * recorded.running.max()
    assert rms["waiting"] <= 0.1 * recorded.waiting.max()
    assert rms["kv_share"] <= 0.15


def test_its_memory_is_too_small_so_requests_are_preempted_and_none_is_lost(found: Replay) -> None:
    assert found.preemptions > 0
    assert len(found.visits) == len(found.recorded.requests)


def test_blocks_that_outlive_a_preemption_bring_the_replay_closer(found: Replay) -> None:
    forgetful = replay(found.recorded, read_profile(RUN / "profile"), BLOCKS, own_blocks=False)
    for metric in ("ttft_mean_s", "tpot_mean_s", "e2e_mean_s"):
        assert abs(found.errors()[metric]) < min(0.05, abs(forgetful.errors()[metric])), metric
    assert found.timeline_rms()["running"] < forgetful.timeline_rms()["running"]
