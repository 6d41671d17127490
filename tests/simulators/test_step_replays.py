"""Replays of step logs on made-up logs worked out by hand: memory that runs out, caps of a step, single tokens."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from serving_pieces import requests

from benchmarks.step_replays import durations_replay, forms_replay, main
from hydra_dse.errors import InputError
from simulators.serving.step_replay import Blocks, replay_durations

REQUESTS = """\
Request Id,arrival_s,request_num_prefill_tokens,request_num_decode_tokens,prefill_e2e_time,request_e2e_time
0,0.0,7,4,1.0,4.0
1,0.0,7,4,1.0,6.0
2,10.0,3,1,1.0,1.0
"""
# Five blocks of four tokens.  Both prompts take two.  The third step needs a block of each and one is free: the second
# request goes, is computed again (seven tokens and its two answers) when the first has ended, and emits its third.
ITERATIONS = "dur_ms,batch,num_tokens,n_prefill_chunks\n" + "".join(
    f"1000,{batch},{tokens},{chunks}\n"
    for batch, tokens, chunks in ((2, 14, 2), (2, 2, 0), (1, 1, 0), (1, 1, 0), (1, 9, 1), (1, 1, 0), (1, 3, 1))
)
STEPS = """\
prefill_ms: {constant: 0, per_token: 1000, per_squared_length: 0}
decode_ms: [{from_batch: 0, constant: 1000, per_context_token: 0, per_sequence: 0}]
cache_tokens: 1000
max_batch: 10
grace_ms: 0
"""


def log_of(folder: Path) -> tuple[Path, Path]:
    iterations, served = folder / "iterations.csv", folder / "requests.csv"
    iterations.write_text(ITERATIONS)
    served.write_text(REQUESTS)
    return iterations, served


def test_a_log_with_preemptions_is_followed_iteration_by_iteration(tmp_path: Path) -> None:
    found, alike, pairs = durations_replay(*log_of(tmp_path), 8, 100, Blocks(5, 4, 0.0))
    assert set(alike.values()) == {1.0}
    assert found.visits.preemptions.tolist() == [0, 1, 0]
    assert all(pair.share_within(1e-12) == 1.0 for pair in pairs.values())
    assert len(pairs["tpot"].mine) == 2  # the third request has no token after its first


def test_the_command_reads_the_blocks_of_the_engine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["durations", *map(str, log_of(tmp_path)), "--max-batch", "8", "--token-budget", "100"]
    assert main([*words, "--cache-blocks", "5", "--block-tokens", "4", "--watermark", "0"]) == 0
    said = capsys.readouterr().out
    assert said.count("100.00 % of iterations alike") == 3
    assert "preemptions in the replay: 1" in said
    assert "nan" not in said
    assert main([*words, "--cache-blocks", "2", "--block-tokens", "4"]) == 2
    assert "caches 10 tokens, 3 blocks of 4; the cache admits 2 blocks" in capsys.readouterr().err


def test_admissions_leave_whole_blocks_of_the_watermark_free() -> None:
    shape = Blocks(180, 16, 0.01).shape()  # 1.8 blocks: one
    assert shape.admission_bytes // shape.block_bytes == 179
    one_each = replay_durations(requests((0, 8, 1), (0, 8, 1)), np.ones(2), 8, 100, Blocks(3, 4, 0.34))
    assert one_each.sequences.tolist() == [1, 1]  # two blocks and one of the watermark: the second prompt waits


def test_a_request_that_no_cache_holds_is_refused_with_its_blocks() -> None:
    with pytest.raises(InputError, match=r"request 1 .* 41 tokens, 3 blocks of 16; the cache admits 2 blocks"):
        replay_durations(requests((0, 8, 1), (1, 40, 2)), np.ones(2), 8, 100, Blocks(2))


def test_a_cap_on_prompts_of_a_step_is_not_the_cache_and_answers_of_one_token_have_no_tpot(tmp_path: Path) -> None:
    log, steps = tmp_path / "log.csv", tmp_path / "steps.yaml"
    # Prompts of 4 and 4 tokens, one step each under a cap of 5 (4 s each); the second decodes twice after them.
    log.write_text("arrival_s,prompt,output,first_token_latency,tpot\n0,4,0,4000,0\n0,4,2,8000,1000\n")
    steps.write_text(STEPS)
    together = forms_replay(log, steps)
    assert together["ttft"].mine.tolist() == [8.0, 8.0]
    steps.write_text(STEPS + "prefill_tokens: 5\n")
    apart = forms_replay(log, steps)
    assert apart["ttft"].mine.tolist() == [4.0, 8.0]
    assert apart["tpot"].mine.tolist() == apart["tpot"].theirs.tolist() == [1.0]
