"""Explain and what-if on traces of others: every dialect that the metrics read, and nothing that stops them."""

from __future__ import annotations

import gzip
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from hydra_dse.bundle.explain import compare, read_breakdown
from hydra_dse.bundle.metrics.families import family
from hydra_dse.bundle.reading.events import timed_events
from hydra_dse.bundle.whatif import graph_of, recorded, replay
from hydra_dse.bundle.writing.bundle import _script
from hydra_dse.cli.app import app
from hydra_dse.errors import InputError

Event = dict[str, Any]
NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"


def _step(number: int, at: float, external: int, rank: int = 0) -> list[Event]:
    marker = {"cat": "user_annotation", "name": f"ProfilerStep#{number}", "tid": 1, "ts": at, "dur": 1000.0, "args": {}}
    gemm = {"cat": "kernel", "name": "gemm", "tid": 7, "ts": at, "dur": 600.0 + 50.0 * rank, "args": {"stream": 7}}
    start = at + gemm["dur"]
    args = {"stream": 20, "External id": external}
    reduce = {"cat": "kernel", "name": NCCL, "tid": 20, "ts": start, "dur": at + 900.0 - start, "args": args}
    return [{"ph": "X", "pid": rank, **event} for event in (marker, gemm, reduce)]


def _ranks(skew: float = 0.0) -> list[list[Event]]:
    """Two ranks of four steps, the second by a clock that is `skew` µs ahead."""
    return [[e for n in range(4) for e in _step(n, 1000.0 * n + skew * rank, n, rank)] for rank in range(2)]


def _card(phase: str = "training", batch: int = 4) -> str:
    return (
        f"workload:\n  model: {{model_family: llama-3.1-8b, precision: bf16, phase: {phase}}}\n"
        f"  data: {{batch_size: {batch}, seq_len: 128}}\n"
    )


def _bundle(folder: Path, ranks: list[list[Event]], card: str | None, name: str = "rank{}_trace.json") -> Path:
    folder.mkdir()
    for rank, events in enumerate(ranks):
        text = json.dumps({"traceEvents": events})
        file = folder / name.format(rank)
        file.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    if card is not None:
        (folder / f"{folder.name}.yaml").write_text(card)
    return folder


WRONG: list[object] = [None, "abc", "12.5", [1], {"a": 1}, -5, float("nan"), float("inf"), 1e300, True, 10**400]


@pytest.mark.slow
def test_events_with_wrong_values_are_left_out_and_stop_nothing(tmp_path: Path) -> None:
    good = _bundle(tmp_path / "good", _ranks(), _card())
    keys = ("ts", "dur", "name", "cat", "pid", "tid", "args", "ph")
    for number, (key, value) in enumerate((key, value) for key in keys for value in WRONG):
        events = _ranks()[0]
        for event in events[::2]:
            event[key] = value
        events[1]["args"]["External id"] = value
        odd = _bundle(tmp_path / f"odd{number}", [[*events, value]], _card())  # type: ignore[list-item]
        for words in (["explain", str(good), str(odd)], ["whatif", str(odd)]):
            found = CliRunner().invoke(app, words)
            assert found.exit_code == 0 or isinstance(found.exception, (InputError, SystemExit)), (key, value, words)


@pytest.mark.parametrize("content", ["3", '{"a": 1}', '{"traceEvents": null}', "", "\x00", "[" * 50_000])
def test_a_file_that_is_no_trace_is_refused(tmp_path: Path, content: str) -> None:
    folder = _bundle(tmp_path / "b", [], _card())
    (folder / "rank0_trace.json").write_text(content)
    for words in (["explain", str(folder), str(folder)], ["whatif", str(folder)]):
        assert isinstance(CliRunner().invoke(app, words).exception, (InputError, SystemExit))


@pytest.mark.parametrize("name", ["kineto_trace_{}.json", "rank{}_trace.json.gz"])
def test_other_names_and_gzip_say_the_same(tmp_path: Path, name: str) -> None:
    plain = _bundle(tmp_path / "plain", _ranks(), _card())
    other = _bundle(tmp_path / "other", _ranks(), _card(), name)
    found = compare(read_breakdown(plain), read_breakdown(other))
    assert found.equal_work.equal and all(row.difference_s == 0.0 for row in found.rows)
    gains = [CliRunner().invoke(app, ["whatif", str(folder), "--json"]).output for folder in (plain, other)]
    assert gains[0] == gains[1] and json.loads(gains[0])["replayed"] is True


def test_training_and_inference_are_no_equal_work(tmp_path: Path) -> None:
    sides = [read_breakdown(_bundle(tmp_path / phase, _ranks(), _card(phase))) for phase in ("training", "inference")]
    with pytest.raises(InputError, match="phases training and inference"):
        compare(*sides)


def test_without_a_card_equal_work_is_not_claimed(tmp_path: Path) -> None:
    sides = [
        read_breakdown(_bundle(tmp_path / "a", _ranks(), None)),
        read_breakdown(_bundle(tmp_path / "b", _ranks(), _card())),
    ]
    found = compare(*sides)
    assert found.equal_work.equal is None and found.equal_work.reasons == ("a has no card",)
    assert (
        "EQUAL WORK NOT KNOWN" in CliRunner().invoke(app, ["explain", str(tmp_path / "a"), str(tmp_path / "b")]).output
    )


def test_training_steps_are_normalised_by_the_tokens_of_their_cards(tmp_path: Path) -> None:
    """Equal steps with batches of 1 and 32: a token costs 32 times less."""
    sides = [read_breakdown(_bundle(tmp_path / f"b{n}", _ranks(), _card(batch=n))) for n in (1, 32)]
    with pytest.raises(InputError, match="batch_size 1 and 32"):
        compare(*sides)
    found = compare(*sides, normalise=True)
    one, many = found.totals["step"]
    assert one == pytest.approx(1e-3 / 128) and one == pytest.approx(32 * many)
    assert sum(row.b_s for row in found.rows) == pytest.approx(many)


@pytest.mark.parametrize("skew", [0.0, 300.0, 5e6, -5e6])
def test_the_unscaled_replay_takes_the_recorded_time_whatever_the_clocks(tmp_path: Path, skew: float) -> None:
    folder = _bundle(tmp_path / "b", _ranks(skew), None)
    nodes = graph_of([timed_events(folder / f"rank{rank}_trace.json", {"kernel"}).events for rank in range(2)])
    assert replay(nodes, {}) == pytest.approx(recorded(nodes), rel=1e-12)
    for factor in (2.0, 4.0):
        assert recorded(nodes) / factor <= replay(nodes, {"noi": factor, "compute": factor}) <= recorded(nodes)


def test_an_id_that_two_collectives_share_matches_neither() -> None:
    """External ids that count the operators of each rank are no numbers of collectives."""
    ranks = [[e for e in events if e["cat"] == "kernel"] for events in _ranks()]
    for events in ranks:
        for event in events:
            event["args"].update({"External id": 1})
    nodes = graph_of(ranks)
    assert all(node.group is None for node in nodes) and replay(nodes, {}) == recorded(nodes)


def test_events_that_overlap_on_one_stream_keep_their_starts() -> None:
    outer = {"cat": "kernel", "name": "gemm", "tid": 7, "ts": 0.0, "dur": 100.0, "args": {}}
    inner = {**outer, "name": NCCL, "ts": 40.0, "dur": 20.0}
    after = {**outer, "ts": 100.0, "dur": 50.0}
    nodes = graph_of([[outer, inner, after]])
    assert (
        replay(nodes, {}) == 150.0 and replay(nodes, {"compute": 2.0}) == 75.0 and replay(nodes, {"noi": 2.0}) == 150.0
    )


def test_pairs_and_repeated_resources_are_as_for_our_bundles(tmp_path: Path) -> None:
    words = ["whatif", str(_bundle(tmp_path / "b", _ranks(), None)), "--json", "--scale", "noi=2", "--scale"]
    rows = json.loads(CliRunner().invoke(app, [*words, "hbm=2", "--no-pairs"]).output)["sensitivities"]
    assert [len(row["scale"]) for row in rows] == [1, 1]
    with pytest.raises(InputError, match="once"):
        CliRunner().invoke(app, [*words, "noi=4"], catch_exceptions=False)


@pytest.mark.parametrize("name", ["missing/w.png", "w.foo", "folder.png"])
def test_a_picture_that_cannot_be_written_is_refused_before_the_work(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder.png").mkdir()
    words = ["explain", "nothing", "nothing", "--plot", str(tmp_path / name)]
    found = CliRunner().invoke(app, words)
    assert isinstance(found.exception, (InputError, SystemExit)) and "nothing" not in str(found.exception)


def test_the_launch_script_keeps_any_name_of_the_folder(tmp_path: Path) -> None:
    """The default target of run.sh is below the script, and an argument replaces it."""
    folder = tmp_path / "a b" / "q'\"$d `x` ü"
    folder.mkdir(parents=True)
    script = folder / "run.sh"
    script.write_text(_script(("simulate", "x"), folder))
    for words, target in (
        (["sh", str(script)], folder / "replayed" / folder.name),
        (["sh", str(script), "/y $z"], "/y $z"),
    ):
        said = subprocess.run(
            words, env={"HYDRA_DSE": "echo", "PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=True
        )
        assert said.stdout == f"simulate x --bundle {target}\n"


def test_the_scan_of_a_state_space_layer_is_no_routing() -> None:
    assert family("ssm_scan") == family("selective_scan_fwd") == family("_chunk_scan_fwd") == "other"
    assert family("moe_scan_kernel") == "moe_route"
