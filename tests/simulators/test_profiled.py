"""Layer profiles: interpolation, the time of an iteration, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from hydra_dse.config import load_model
from hydra_dse.errors import InputError
from hydra_dse.model.routing import Routing
from simulators.iteration import Attended, Composition
from simulators.profiled import EngineSteps, LayerProfile, ProfiledSteps, Stack, read_profile, read_run
from simulators.profiled.table import GridTable, RaggedTable
from simulators.serving.replay import replay

US = 1e-6


def line(*points: tuple[float, float]) -> GridTable:
    return GridTable.of({(x,): y for x, y in points})


def plane(first: float, second: float, start: float = 0.0) -> GridTable:
    """`start + first·x + second·y` measured on a grid."""
    return GridTable.of({(x, y): start + first * x + second * y for x in (1.0, 4.0, 16.0) for y in (0.0, 8.0, 64.0)})


def profile(mixed: GridTable | None = None) -> LayerProfile:
    return LayerProfile(
        {
            "embedding": line((1, 1.0), (100, 100.0)),
            "layernorm": line((1, 1.0), (100, 1.0)),
            "mlp": line((1, 2.0), (101, 202.0)),
        },
        {"lm_head": line((1, 10.0), (11, 20.0))},
        plane(1.0, 0.5, 3.0),
        plane(2.0, 0.25, 3.0),
        mixed,
    )


def test_linear_functions_come_back_exactly_inside_and_above_the_grid() -> None:
    table = plane(2.0, 3.0, 1.0)
    for x, y in ((2.5, 5.0), (4.0, 8.0), (16.0, 64.0), (40.0, 500.0)):
        assert table.at(x, y) == pytest.approx(1.0 + 2.0 * x + 3.0 * y, rel=1e-12)


def test_below_the_grid_the_first_point_counts_as_a_launch_has_a_floor() -> None:
    assert line((16, 9.0), (32, 12.0)).at(1) == 9.0


def test_an_axis_value_with_gaps_is_left_out_so_that_no_gap_is_read_as_a_time() -> None:
    points = {(x, y): x + y for x in (1.0, 2.0, 3.0) for y in (1.0, 2.0, 3.0) if (x, y) != (3.0, 3.0)}
    table = GridTable.of({**points, (3.0, 2.0): 5.0})
    assert 3.0 not in table.axes[0] or 3.0 not in table.axes[1]
    assert table.at(1.5, 2.0) == pytest.approx(3.5)


def test_a_staircase_of_points_leaves_a_grid_and_scattered_points_none() -> None:
    chunks, before = (16.0, 64.0, 256.0, 1024.0), (0.0, 512.0, 2048.0, 4096.0)
    stairs = {(c, b): 5.0 + c + 2.0 * b for c in chunks for b in before if c + b < 5000.0}
    assert GridTable.of(stairs).at(1024.0, 4096.0) == pytest.approx(5.0 + 1024.0 + 2.0 * 4096.0)
    with pytest.raises(InputError, match=r"attention\.csv: 4 points measured of 4 x 4 values lie on no common grid"):
        GridTable.of(dict.fromkeys(zip(chunks, before, strict=True), 1.0), "attention.csv")


def test_an_iteration_is_the_sum_of_its_layers() -> None:
    steps = ProfiledSteps(profile(), blocks=3)
    batch = Composition(0, 0, 4, 4, Attended(decode_tokens=32))
    attention = 3.0 + 2.0 * 4 + 0.25 * 8
    expected = 4.0 + 3 * (2 * 1.0 + 2.0 * 4) + (10.0 + 3.0) + 3 * attention
    assert steps(batch) == pytest.approx(expected * US, rel=1e-12)


def test_captured_launches_pad_small_iterations_and_the_host_adds_its_time() -> None:
    plain = ProfiledSteps(profile(), 3)
    padded = ProfiledSteps(profile(), 3, EngineSteps((1, 8, 16), host_s=0.001))
    four, eight = (Composition(0, 0, n, 4, Attended(decode_tokens=32)) for n in (4, 8))
    dense = 8 - 4
    assert padded(four) - plain(four) == pytest.approx(0.001 + (dense + 3 * 2.0 * dense) * US)
    assert EngineSteps((1, 8, 16)).padded(17) == 17
    assert plain(eight) > plain(four)


def test_chunks_of_equal_pairs_cost_the_same_and_each_further_one_no_second_launch() -> None:
    steps = ProfiledSteps(profile(), 1)
    one = Composition(8, 1, 0, 0, Attended(prefill_pairs=8 * (10 + 4)))
    assert steps.attention_us(one) == pytest.approx(3.0 + 8.0 + 0.5 * 10)
    two = Composition(16, 2, 0, 0, Attended(prefill_pairs=2 * 8 * (10 + 4)))
    launch = min(3.0 + 1.0, 3.0 + 2.0)
    assert steps.attention_us(two) == pytest.approx(2 * (3.0 + 8.0 + 5.0) - launch)


def test_a_measured_mixed_launch_is_used_where_there_is_one() -> None:
    points = {
        (c, b, n, k): c + b + 10 * n + k
        for c in (4.0, 8.0)
        for b in (0.0, 8.0)
        for n in (1.0, 8.0)
        for k in (8.0, 64.0)
    }
    steps = ProfiledSteps(profile(GridTable.of(points)), 1)
    batch = Composition(8, 1, 2, 2, Attended(decode_tokens=32, prefill_pairs=8 * (4 + 4)))
    assert steps.attention_us(batch) == pytest.approx(8 + 4 + 20 + 16)


def write(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(text)


def complete(folder: Path) -> None:
    write(folder, "dense.csv", "layer,tokens,time_us\nmlp,1,2\nmlp,2,3\n")
    write(folder, "per_sequence.csv", "layer,sequences,time_us\nlm_head,1,2\n")
    write(folder, "attention.csv", "prefill_chunk,kv_prefill,n_decode,kv_decode,time_us\n16,0,0,0,9\n0,0,1,16,8\n")


def test_a_profile_is_read_from_its_three_tables(tmp_path: Path) -> None:
    complete(tmp_path)
    found = read_profile(tmp_path)
    assert found.mixed is None
    assert found.decode.at(1, 16) == 8.0


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("dense.csv", "layer,tokens,time_us\nmlp,1,nan\n", r"dense\.csv:2: time_us: must be a finite number"),
        ("dense.csv", "layer,token,time_us\nmlp,1,1\n", r"no column 'tokens' \(did you mean 'token'\?\)"),
        (
            "attention.csv",
            "prefill_chunk,kv_prefill,n_decode,kv_decode,time_us\n16,0,0,0,9\n",
            "decoding sequences alone",
        ),
        ("per_sequence.csv", "layer,sequences,time_us\nlm_head,-1,1\n", r"per_sequence\.csv:2: sequences"),
    ],
)
def test_a_broken_profile_is_named_with_its_line(tmp_path: Path, name: str, text: str, said: str) -> None:
    complete(tmp_path)
    write(tmp_path, name, text)
    with pytest.raises(InputError, match=said):
        read_profile(tmp_path)


def test_a_ragged_table_has_points_of_its_own_in_every_row() -> None:
    table = RaggedTable.of({1.0: {2.0: 10.0}, 3.0: {2.0: 20.0, 6.0: 40.0}})
    assert table.at(1, 5) == 10.0
    assert table.at(3, 4) == pytest.approx(30.0)
    assert table.at(3, 9) == 40.0
    assert table.at(2, 4) == pytest.approx((10.0 + 30.0) / 2)


def test_blocks_with_experts_take_the_time_of_the_experts_their_tokens_touch() -> None:
    dense = {"mlp": line((1, 2.0), (101, 202.0)), "down_proj": line((1, 5.0), (101, 5.0))}
    time = {1.0: {2.0: 30.0}, 4.0: {2.0: 30.0, 8.0: 90.0}}
    given = LayerProfile(dense, {}, plane(1.0, 0.5), plane(2.0, 0.25), None, RaggedTable.of(time))
    steps = ProfiledSteps(given, Stack(3, mixtures=2, routing=Routing(8, 2)))
    batch = Composition(0, 0, 4, 4, Attended(decode_tokens=32))
    touched = 8 * (1 - (1 - 2 / 8) ** 4)  # four tokens, each two of eight experts
    experts = 30.0 + 60.0 * (touched - 2) / 6
    attention = 2.0 * 4 + 0.25 * 8
    assert steps(batch) == pytest.approx(US * (3 * 8.0 + 1 * 5.0 + 3 * attention + 2 * experts), rel=1e-12)


def test_experts_are_in_both_profile_and_model_or_in_neither() -> None:
    with pytest.raises(InputError, match=r"the model has a mixture of experts, the profile \(moe\.csv\) none"):
        ProfiledSteps(profile(), Stack.of(load_model("mixtral-8x7b")))
    assert Stack.of(load_model("mixtral-8x7b")) == Stack(32, 32, Routing(8, 2))
    assert Stack.of(load_model("llama-3.1-8b")) == Stack(32)


@pytest.mark.parametrize(("name", "said"), [("nemotron-h-8b", "without attention"), ("gpt-oss-20b", "several windows")])
def test_a_model_of_blocks_that_no_profile_holds_is_refused(name: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        Stack.of(load_model(name))


def test_newer_tables_give_the_keys_of_a_chunk_and_the_positions_of_a_step(tmp_path: Path) -> None:
    complete(tmp_path)
    header = "layer,prefill_chunk,prefill_key,n_decode,kv_decode,decode_q_len,time_us\n"
    rows = "attention,16,8,0,0,1,9\nattention,16,72,0,0,1,11\nattention,0,0,1,16,1,8\nattention,0,0,1,16,4,80\n"
    write(tmp_path, "attention.csv", header + rows)
    write(tmp_path, "moe.csv", "ep,tokens,activated_experts,time_us\n1,1,2,30\n2,1,1,20\n")
    found = read_profile(tmp_path)
    assert found.prefill.axes == ((16.0,), (0.0, 64.0))
    assert found.decode.at(1, 16) == 8.0
    assert found.experts is not None
    assert found.experts.at(1, 2) == 30.0
    write(tmp_path, "attention.csv", header + rows.replace("attention,0,0,1,16,1", "indexer,0,0,1,16,1"))
    with pytest.raises(InputError, match="several kinds"):
        read_profile(tmp_path)


def test_a_profile_with_a_table_that_is_not_read_is_refused(tmp_path: Path) -> None:
    complete(tmp_path)
    write(tmp_path, "linear_attention.csv", "layer,prefill_tokens,n_decode,time_us\n")
    with pytest.raises(InputError, match=r"linear_attention\.csv: is not read"):
        read_profile(tmp_path)


META = (
    '{"engine_kwargs": {"max_num_seqs": 4, "max_num_batched_tokens": 64}, '
    '"kv_cache": {"block_size": 16, "num_gpu_blocks": 9}}'
)
ROW = '{"input_toks": 5, "output_toks": 2, "queued_ts": 1.0, "first_token_ts": 2.0, "last_token_ts": 3.0}\n'


def test_a_recorded_run_is_read_with_times_from_its_first_request(tmp_path: Path) -> None:
    write(tmp_path, "meta.json", META)
    write(tmp_path, "requests.jsonl", ROW)
    found = read_run(tmp_path)
    assert found.requests.arrival_s.tolist() == [0.0]
    assert (found.first_token_s.tolist(), found.last_token_s.tolist()) == ([1.0], [2.0])
    assert (found.policy.max_batch, found.policy.token_budget, found.cache_blocks) == (4, 64, 9)
    assert len(found.time_s) == 0


def test_limits_that_the_launch_left_open_are_those_the_engine_resolved(tmp_path: Path) -> None:
    write(
        tmp_path,
        "meta.json",
        '{"engine_kwargs": {"max_num_batched_tokens": 64, "max_num_seqs": null}, '
        '"kv_cache": {"block_size": 16, "num_gpu_blocks": 9}, '
        '"resolved_config": {"scheduler_config": {"max_num_seqs": 256, "max_num_batched_tokens": 64}}}',
    )
    write(tmp_path, "requests.jsonl", ROW)
    assert read_run(tmp_path).policy.max_batch == 256


def test_a_recorded_request_that_the_recorded_cache_cannot_hold_is_refused(tmp_path: Path) -> None:
    complete(tmp_path)
    write(tmp_path, "meta.json", META)
    write(tmp_path, "requests.jsonl", ROW.replace("5", "160"))
    with pytest.raises(InputError, match="161 tokens, 11 blocks of 16; the cache admits 9 blocks"):
        replay(read_run(tmp_path), read_profile(tmp_path), blocks=2)


def test_a_run_without_a_time_series_is_replayed_and_has_no_difference_in_time(tmp_path: Path) -> None:
    complete(tmp_path)
    write(tmp_path, "meta.json", META)
    write(tmp_path, "requests.jsonl", ROW)
    found = replay(read_run(tmp_path), read_profile(tmp_path), blocks=2)
    assert found.timeline_rms() == {}
    mlp, head, attention = 1.0 + 5, 2.0, 9.0  # five tokens in one chunk, below the smallest measured
    assert found.latencies()["ttft_s"][0].tolist() == pytest.approx([US * (2 * mlp + head + 2 * attention)])


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("requests.jsonl", ROW + "{", r"requests\.jsonl:2: no JSON"),
        ("requests.jsonl", ROW.replace("5", "0"), r"requests\.jsonl:1: input_toks: must be an integer of at least 1"),
        ("requests.jsonl", ROW.replace("3.0", "1.5"), "dates run backwards"),
        ("requests.jsonl", "", "holds no request"),
        ("meta.json", "{}", "engine_kwargs: missing section"),
        (
            "meta.json",
            META.replace("64}", '64, "data_parallel_size": 2}'),
            "data_parallel_size: a replay has 1, the eng",
        ),
        (
            "meta.json",
            META[:-1] + ', "resolved_config": {"scheduler_config": {"enable_chunked_prefill": false}}}',
            "enable_chunked_prefill: a replay has True, the engine had False",
        ),
        ("meta.json", META[:-1] + ', "resolved_config": {"speculative_config": {"method": "mtp"}}}', "drafted tokens"),
    ],
)
def test_a_broken_run_is_named_with_its_line(tmp_path: Path, name: str, text: str, said: str) -> None:
    write(tmp_path, "meta.json", META)
    write(tmp_path, "requests.jsonl", ROW)
    write(tmp_path, name, text)
    with pytest.raises(InputError, match=said):
        read_run(tmp_path)
