"""Chakra files of a bundle, read back by a decoder of their own and, where it is installed, by Chakra's own schema."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from bundles import ONE_DIE, written
from click.testing import CliRunner
from systems import write_ring

from hydra_dse.bundle.chakra import GROUPS, export
from hydra_dse.bundle.writing import events_of, rank_file
from hydra_dse.cli.app import app
from hydra_dse.config import load_model
from hydra_dse.errors import InputError
from hydra_dse.model.counts import total_parameters
from hydra_dse.studies.design_simulation import DesignSimulation

Message = dict[int, list[Any]]
LOAD, STORE, COMP, SEND, RECV, COLL = range(2, 8)
HIDDEN, FEED_FORWARD = 3072, 24
"""Hidden size and feed-forward blocks of nemotron-h-4b; activations have 2 bytes."""

SRAM = 4 * 50e6
"""Bytes of the SRAM of all dies."""


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if not data[at - 1] & 0x80:
            return value, at


def _decoded(data: bytes) -> Message:
    """Values by field number; sub-messages as bytes."""
    found: Message = {}
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        value: Any
        value, at = _varint(data, at)
        if key & 7 == 2:
            at, value = at + value, data[at : at + value]
        found.setdefault(key >> 3, []).append(value)
    return found


def _messages(file: Path) -> Iterator[Message]:
    data, at = file.read_bytes(), 0
    while at < len(data):
        length, at = _varint(data, at)
        yield _decoded(data[at : at + length])
        at += length


def _numbers(packed: list[bytes]) -> list[int]:
    found, at = [], 0
    for part in packed:
        while at < len(part):
            value, at = _varint(part, at)
            found.append(value)
    return found


def _attributes(node: Message) -> dict[str, Any]:
    decoded = [_decoded(each) for each in node.get(10, [])]
    return {each[1][0].decode(): next(each[field][0] for field in each if field != 1) for each in decoded}


def _nodes(folder: Path, rank: int) -> list[tuple[int, str, dict[str, Any], list[int], int]]:
    """Kind, name, attributes, dependencies and id of every node of a rank."""
    head, *nodes = _messages(folder / f"rank.{rank}.et")
    assert head == {1: [b"0.0.4"]}
    return [
        (node[3][0], node[2][0].decode(), _attributes(node), _numbers(node.get(4, []) + node.get(5, [])), node[1][0])
        for node in nodes
    ]


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle of two stages of two dies each, and its export."""
    folder = tmp_path_factory.mktemp("chakra")
    overrides = (
        "workload.arrivals={process: poisson, rate: 6/s}",
        "workload.lengths={prompt: 256, output: 4}",
        "design.mapping={pipeline: 2}",
    )
    design = write_ring(folder, "gpu")
    run = DesignSimulation(
        design, "hydra-chat", model="nemotron-h-4b", requests=16, replications=1, overrides=overrides
    )
    written(folder / "bundle", run)
    export(folder / "bundle", folder / "et")
    return folder


def test_every_event_of_a_rank_is_a_node_of_its_kind(pipeline: Path) -> None:
    for rank in range(4):
        events = [event for event in events_of(pipeline / "bundle" / rank_file(rank)) if event["ph"] == "X"]
        kinds = Counter(kind for kind, *_ in _nodes(pipeline / "et", rank))
        on_rank = [event for event in events if event["pid"] == rank]
        computes = [event for event in on_rank if event["cat"] == "kernel" and "kind" not in event["args"]]
        assert kinds[COMP] == len(computes) + len([event for event in on_rank if event["cat"] == "user_annotation"])
        collectives = [event for event in on_rank if event["args"].get("kind") in ("gather", "reduce")]
        assert kinds[COLL] == len(collectives) > 0
        moved = [event for event in on_rank if event["cat"] in ("weights", "gpu_memcpy")]
        assert kinds[LOAD] + kinds[STORE] == len(moved) > 0


def test_nodes_depend_on_earlier_ones_only_and_all_but_the_first_of_an_engine_on_some(pipeline: Path) -> None:
    for rank in range(4):
        nodes = _nodes(pipeline / "et", rank)
        assert [identity for *_, identity in nodes] == list(range(1, len(nodes) + 1))
        assert all(other < identity for *_, others, identity in nodes for other in others)
        assert [name for _, name, _, others, _ in nodes if not others] == ["execute_context_0"]


def _tokens(folder: Path) -> dict[int, int]:
    """Rows of every iteration."""
    return {
        int(event["name"].removeprefix("execute_context_")): event["args"]["prefill_tokens"]
        + event["args"]["decode_sequences"]
        for event in events_of(folder / "bundle" / rank_file(0))
        if event.get("cat") == "user_annotation"
    }


def test_gathers_hand_round_the_residual_stream_of_their_tokens(pipeline: Path) -> None:
    """As the ledger has it: a row of the hidden size for each token and feed-forward block, in parts of all dies."""
    sent: Counter[int] = Counter()
    for rank in range(4):
        for kind, name, about, *_ in _nodes(pipeline / "et", rank):
            if kind == COLL and "mlp_up" in name and "AllGather" in name:
                sent[about["iteration"]] += about["comm_size"]
    assert dict(sent) == {number: FEED_FORWARD * tokens * HIDDEN * 2 for number, tokens in _tokens(pipeline).items()}


def test_what_one_stage_sends_the_next_receives(pipeline: Path) -> None:
    ends: dict[int, set[tuple[int, int, int, int]]] = {SEND: set(), RECV: set()}
    for rank in range(4):
        for kind, _, about, *_ in _nodes(pipeline / "et", rank):
            if kind in ends:
                ends[kind].add((about["comm_tag"], about["comm_src"], about["comm_dst"], about["comm_size"]))
                assert about["comm_src" if kind == SEND else "comm_dst"] == rank
    assert ends[SEND] == ends[RECV]
    assert sum(size for *_, size in ends[SEND]) == sum(_tokens(pipeline).values()) * HIDDEN * 2


def test_decode_steps_load_the_weights_of_the_model_once(pipeline: Path) -> None:
    """All parameters but the input embedding, of which a step reads some rows, and what stays in SRAM."""
    loads: Counter[int] = Counter()
    for rank in range(4):
        for kind, name, about, *_ in _nodes(pipeline / "et", rank):
            if kind == LOAD and "(weights)" in name:
                loads[about["iteration"]] += about["tensor_size"]
    model = load_model("nemotron-h-4b")
    streamed = total_parameters(model) - model.vocabulary * model.hidden_size * (not model.tied_embeddings)
    assert len(loads) == 4
    assert all(0.0 <= 2.0 * streamed - amount <= SRAM for amount in loads.values())


def test_the_schema_of_chakra_reads_the_same_bytes(pipeline: Path) -> None:
    schema = pytest.importorskip("chakra.schema.protobuf.et_def_pb2")
    tools = pytest.importorskip("chakra.src.third_party.utils.protolib")
    file = pipeline / "et" / "rank.0.et"
    again, head, node = io.BytesIO(), schema.GlobalMetadata(), schema.Node()
    with file.open("rb") as stream:
        tools.decodeMessage(stream, head)
        tools.encodeMessage(again, head)
        while tools.decodeMessage(stream, node):
            tools.encodeMessage(again, node)
    assert again.getvalue() == file.read_bytes()


def test_the_command_counts_what_it_wrote(pipeline: Path, tmp_path: Path) -> None:
    words = ["trace", "export", str(pipeline / "bundle"), "--to", "chakra", "--out", str(tmp_path / "et"), "--json"]
    answer = CliRunner().invoke(app, words)
    assert answer.exit_code == 0, answer.output
    found = json.loads(answer.output)
    kinds = Counter(kind for rank in range(4) for kind, *_ in _nodes(tmp_path / "et", rank))
    names = {
        "MEM_LOAD": LOAD,
        "MEM_STORE": STORE,
        "COMP": COMP,
        "COMM_SEND": SEND,
        "COMM_RECV": RECV,
        "COMM_COLL": COLL,
    }
    assert found["nodes"] == {name: kinds[kind] for name, kind in names.items()}
    groups = json.loads((tmp_path / "et" / GROUPS).read_text())
    assert sorted(rank for ranks in groups.values() for rank in ranks) == [0, 1, 2, 3]


def test_a_foreign_trace_is_left_to_the_converters_of_chakra(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"has no rank0_trace\.json"):
        export(tmp_path, tmp_path / "et")
    (tmp_path / "rank0_trace.json").write_text('{"traceEvents": []}\n')
    with pytest.raises(InputError, match="was not written by hydra-dse simulate"):
        export(tmp_path, tmp_path / "et")


def test_operators_point_at_those_that_wait_for_them(tmp_path: Path) -> None:
    written(tmp_path / "one", replace(ONE_DIE, requests=16))
    events = list(events_of(tmp_path / "one" / "timeline" / "package_trace.json"))
    operators = [e for e in events if e.get("cat") == "operator" and not e["name"].startswith("execute_context_")]
    ends = [[e for e in events if e.get("cat") == "dependency" and e["ph"] == side] for side in "sf"]
    iterations = {event["args"]["iteration"] for event in operators}
    assert len(ends[0]) == len(ends[1]) == len(operators) - len(iterations)
    targets = {event["id"]: event["ts"] for event in ends[1]}
    assert all(targets[event["id"]] > event["ts"] for event in ends[0])
