"""Each rule of the validator: a good folder passes all, and one break is found by the rule that is broken."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bundle.pieces import changed, collective, span, step, write_bundle
from hydra_dse.bundle.reading.check import check_folder
from hydra_dse.bundle.reading.rules import RULES
from hydra_dse.errors import InputError

Events = list[dict[str, Any]]
FOLDER = Path(os.environ.get("HYDRA_DSE_REFERENCE", Path(__file__).resolve().parents[3] / "shared" / "reference"))
TABLE = FOLDER / "ccl_bench" / "trace_fields_needed.csv"


def good() -> Events:
    events: Events = [{"ph": "M", "name": "process_name", "pid": 0, "args": {"name": "rank"}}]
    for number in range(4):
        at = 100.0 * number
        events.append(step(number, at, 100))
        events.append(span("gemm", at, 50, args={"stream": 7, "blocks per SM": 1.5}))
        events.append(collective("AllReduce", at + 40, 30, 1000, **{"External id": number}))
        events.append(span("Memcpy HtoD", at + 60, 20, cat="gpu_memcpy", args={"bytes": 5, "stream": 7}))
    return events


def broken(folder: Path) -> dict[str, int]:
    return {result.rule.name: result.count for result in check_folder(folder) if result.status == "fault"}


def kernel(events: Events, which: int = 0) -> dict[str, Any]:
    return [event for event in events if event["name"] == "gemm"][which]


def call(events: Events, which: int = 0) -> dict[str, Any]:
    return [event for event in events if event["name"].startswith("nccl")][which]


def test_a_good_folder_breaks_no_rule(tmp_path: Path) -> None:
    assert broken(write_bundle(tmp_path / "b", good(), good())) == {}


BREAKS: list[tuple[str, Callable[[Events], object]]] = [
    ("ph", lambda e: e.append({"ph": "B", "name": "x", "ts": 1})),
    ("ph", lambda e: e.append(7)),  # type: ignore[arg-type]
    ("cat", lambda e: kernel(e).update(cat=3)),
    ("name", lambda e: kernel(e).update(name=None)),
    ("ts, dur", lambda e: kernel(e).update(ts="0")),
    ("ts, dur", lambda e: kernel(e).update(dur=-1)),
    ("pid", lambda e: kernel(e).update(pid="zero")),
    ("pid", lambda e: kernel(e, 1).update(pid=5)),
    ("tid", lambda e: kernel(e).update(tid="stream 7")),
    ("Collective name", lambda e: call(e)["args"].pop("Collective name")),
    ("In msg nelems", lambda e: call(e)["args"].update({"In msg nelems": 0})),
    ("Out msg nelems", lambda e: call(e)["args"].pop("Out msg nelems")),
    ("dtype", lambda e: call(e)["args"].update(dtype="bf16")),
    ("Group size", lambda e: call(e)["args"].update({"Group size": "2"})),
    ("Process Group Ranks", lambda e: call(e)["args"].update({"Process Group Ranks": [0, 1]})),
    ("External id", lambda e: call(e)["args"].update({"External id": 99})),
    ("stream", lambda e: kernel(e)["args"].pop("stream")),
    ("blocks per SM", lambda e: kernel(e)["args"].pop("blocks per SM")),
    ("bytes", lambda e: e[4]["args"].update(bytes="5")),
    ("execute_context_*", lambda e: e.remove(e[1])),
    ("nesting", lambda e: kernel(e).update(dur=70)),
    ("monotone time", lambda e: e.append(span("late", 5, 1, tid=7, args={"stream": 7, "blocks per SM": 1}))),
    ("matched collectives", lambda e: e.remove(call(e, 3))),
]


@pytest.mark.parametrize(("rule", "breaks"), BREAKS, ids=lambda value: value if isinstance(value, str) else "")
def test_what_is_broken_is_found_by_its_rule(rule: str, breaks: Callable[[Events], object], tmp_path: Path) -> None:
    events = good()
    breaks(events)
    assert rule in broken(write_bundle(tmp_path / "b", good(), events))


def test_a_fault_names_file_and_event(tmp_path: Path) -> None:
    events = good()
    kernel(events, 1)["args"].pop("stream")
    found = [each for each in check_folder(write_bundle(tmp_path / "b", events)) if each.rule.name == "stream"]
    assert str(found[0].faults[0]) == f"{tmp_path}/b/rank0_trace.json: event 7: args.stream None is no whole number"


def test_collectives_of_other_kinds_do_not_match(tmp_path: Path) -> None:
    events = good()
    call(events, 2)["name"] = "ncclDevKernel_AllGather"
    assert broken(write_bundle(tmp_path / "b", good(), events)) == {"matched collectives": 1}


def test_steps_of_training_must_be_three_and_increase(tmp_path: Path) -> None:
    def trained(*numbers: int) -> Events:
        events = [event for event in good() if "execute" not in event["name"]]
        return events + [step(number, 100.0 * at, 100, "ProfilerStep#") for at, number in enumerate(numbers)]

    assert broken(write_bundle(tmp_path / "a", trained(0, 1, 2))) == {}
    assert broken(write_bundle(tmp_path / "b", trained(0, 1))) == {"ProfilerStep#N": 1}
    assert broken(write_bundle(tmp_path / "c", trained(2, 1, 3))) == {"ProfilerStep#N": 1}


def test_a_bare_list_and_a_cut_file_are_faults(tmp_path: Path) -> None:
    bare, cut = (write_bundle(tmp_path / name, good()) for name in ("bare", "cut"))
    (bare / "rank0_trace.json").write_text(json.dumps(good()))
    (cut / "rank0_trace.json").write_text(json.dumps({"traceEvents": good()})[:-20])
    assert broken(bare) == {"traceEvents": 1}
    assert broken(cut)["traceEvents"] == 1


def test_a_trace_without_kernels_and_a_card_of_another_name_are_faults(tmp_path: Path) -> None:
    folder = write_bundle(tmp_path / "b", [step(0, 0, 1)], card=changed(("- json", "- nsys")))
    assert broken(folder) == {"cat": 1, "card": 1}
    (folder / "b.yaml").rename(folder / "c.yaml")
    assert broken(folder) == {"cat": 1, "card": 2}


def test_a_latency_file_in_a_sub_folder_is_seen_and_may_be_absent(tmp_path: Path) -> None:
    folder = write_bundle(tmp_path / "b", good())
    status = {each.rule.name: each.status for each in check_folder(folder)}
    assert (status["latency file"], status["CUPTI tables"]) == ("absent", "not applicable")
    (folder / "logs").mkdir()
    (folder / "logs" / "x.latency.json").write_text('{"avg_latency": 0.1}')
    assert {each.rule.name: each.status for each in check_folder(folder)}["latency file"] == "ok"


def test_what_is_no_bundle_is_one_message(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds neither a card nor a trace"):
        check_folder(tmp_path)
    with pytest.raises(InputError, match="no such folder"):
        check_folder(tmp_path / "nowhere")


@pytest.mark.skipif(not TABLE.is_file(), reason=f"no reference data at {TABLE}")
def test_every_row_of_the_published_table_has_a_rule() -> None:
    names = " ".join(f"{rule.name} {rule.where} {rule.value}" for rule in RULES)
    spelled = {
        "args.hlo_category, device_duration_ps": "hlo_category",
        "StringIds(id": "CUPTI",
        "<any>": "latency.json",
    }
    with TABLE.open(newline="") as stream:
        for row in csv.DictReader(stream):
            field = next((own for start, own in spelled.items() if row["field"].startswith(start)), row["field"])
            first = field.removeprefix("args.").strip('"').split(" | ")[0]
            assert first in names, row["field"]
