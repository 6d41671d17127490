"""Tables of bundles and the commands `card` and `trace`."""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from cli.pieces import Answer, call

from bundle.pieces import changed, collective, span, step, write_bundle
from hydra_dse.bundle.metrics.render import to_csv, to_html
from hydra_dse.bundle.metrics.table import Row, reason, sort, table
from hydra_dse.errors import InputError

# Training: a step does the card's work, 22 ms at the peak of two devices.
TRAINING = changed(("phase: inference", "phase: training"))


def events(duration: float = 1e5, talks: bool = True) -> list[dict[str, Any]]:
    steps = [step(number, number * duration, duration, "ProfilerStep#") for number in range(4)]
    starts = [number * duration for number in range(4)]
    calls = [collective("AllReduce", at + 0.4 * duration, 0.2 * duration, 100) for at in starts] if talks else []
    return [*steps, *(span("gemm", at, 0.5 * duration) for at in starts), *calls]


@pytest.fixture
def bundles(tmp_path: Path) -> Path:
    """Two of equal work under other spellings, one of another batch without communication."""
    folder = tmp_path / "all"
    write_bundle(folder / "a", events(2e5), card=TRAINING)
    write_bundle(folder / "b", events(1e5), card=changed(("llama-3.1-8b", "Llama 3.1 8B"), card=TRAINING))
    write_bundle(
        folder / "c", events(1.5e6, talks=False), card=changed(("batch_size: 4", "batch_size: 32"), card=TRAINING)
    )
    for name in "abc":
        (folder / name / "run.sh").write_text("vllm serve -tp 2\n")
    return folder


def named(rows: list[Row]) -> list[str]:
    return [row.name for row in rows]


def test_rows_of_equal_work_stand_together(bundles: Path) -> None:
    rows = table([bundles / "c", bundles / "a", bundles / "b"])
    assert named(rows) == ["c", "a", "b"]
    assert rows[1].work == rows[2].work != rows[0].work
    assert "batch 32" in rows[0].work


def test_a_folder_of_bundles_stands_for_them(bundles: Path) -> None:
    assert named(table([bundles])) == ["a", "b", "c"]


def test_rows_are_sorted_within_equal_work_and_missing_values_come_last(bundles: Path) -> None:
    rows = table([bundles])
    assert named(sort(rows, "avg_step_time")) == ["b", "a", "c"]
    assert named(sort(rows, "avg_step_time", descending=True)) == ["a", "b", "c"]
    with pytest.raises(InputError, match=r"no bundle has a value of 'ttft_mean_s': no instants of requests"):
        sort(rows, "ttft_mean_s")


def test_a_missing_value_has_its_reason_in_the_table(bundles: Path) -> None:
    rows = table([bundles])
    assert (
        reason(rows[2], "compute_comm_overlap") == "step markers missing, or no communication kernel within the steps"
    )
    read = list(csv.DictReader(io.StringIO(to_csv(rows))))
    assert [float(row["avg_step_time"]) for row in read] == pytest.approx([0.2, 0.1, 1.5])
    assert "compute_comm_overlap: step markers missing" in read[2]["missing"]
    assert read[2]["compute_comm_overlap"] == ""


def flags(folder: Path) -> list[str]:
    return list(table([folder])[0].flags)


def test_a_right_bundle_has_no_flags(bundles: Path) -> None:
    assert flags(bundles / "a") == []


def recorded(folder: Path, script: str = "run.sh") -> str:
    def entry(name: str) -> str:
        return f"{{file: {name}, sha256: {hashlib.sha256((folder / name).read_bytes()).hexdigest()}}}"

    return f"x_chiplet:\n  run_script: {entry(script)}\n  traces: [{entry('rank0_trace.json')}]\n"


def test_digests_that_match_are_no_flags_and_others_are(bundles: Path) -> None:
    folder = bundles / "a"
    (folder / "a.yaml").write_text(TRAINING + recorded(folder))
    assert flags(folder) == []
    (folder / "run.sh").write_text("something else\n")
    assert [flag[:42] for flag in flags(folder)] == ["launch script run.sh is not the one recorded"[:42]]
    (folder / "rank0_trace.json").write_text('{"traceEvents": []}')
    assert sum("is not the one recorded" in flag for flag in flags(folder)) == 2
    (folder / "run.sh").unlink()
    assert "launch script run.sh is recorded but not in the folder" in flags(folder)


def test_a_record_that_points_outside_the_folder_is_not_followed(bundles: Path) -> None:
    (bundles / "a" / "a.yaml").write_text(TRAINING + "x_chiplet: {run_script: {file: ../b/run.sh, sha256: x}}\n")
    assert any("names no file of the folder" in flag for flag in flags(bundles / "a"))


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("serve --tensor-parallel-size 4", "run.sh runs with tp 4, the card says 2"),
        ("serve --batch-size=8", "run.sh runs with batch_size 8, the card says 4"),
        ("serve --enable-expert-parallel", "the card's model is dense"),
    ],
)
def test_a_launch_script_that_contradicts_the_card_is_flagged(script: str, said: str, bundles: Path) -> None:
    (bundles / "a" / "run.sh").write_text(script)
    assert any(said in flag for flag in flags(bundles / "a"))


def test_missing_scripts_faulty_cards_and_unreadable_traces_are_flags(tmp_path: Path) -> None:
    folder = write_bundle(tmp_path / "x", events(), card=changed(("tp: 2", "tp: 4")))
    (folder / "rank0_trace.json").write_text("nothing")
    found = " | ".join(flags(folder))
    assert "no launch script" in found
    assert "contradictory parallelism" in found
    assert "cannot be read" in found


class Page(HTMLParser):
    """Tags in order, and the values of cells."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.values: list[str | None] = []
        self.titles: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if tag not in ("meta", "br"):
            self.open.append(tag)
        if "data-value" in found:
            self.values.append(found["data-value"])
        self.titles.append(found.get("title") or "")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_well_formed_and_says_why_a_cell_is_empty(bundles: Path) -> None:
    (bundles / "a" / "run.sh").write_text("x --batch-size 8 <script>")
    text = to_html(table([bundles]))
    page = Page(text)
    assert page.open == []
    assert text.count("<tbody>") == 2
    assert any("no communication kernel" in title for title in page.titles)
    assert "http" not in text


def test_names_are_escaped_on_the_page(tmp_path: Path) -> None:
    folder = write_bundle(tmp_path / "<b onload=x>", events())
    text = to_html(table([folder]))
    assert "<b onload" not in text
    assert "&lt;b onload=x&gt;" in text


@pytest.fixture
def hydra(capsys: pytest.CaptureFixture[str]) -> Callable[..., Answer]:
    return lambda *words: call(capsys, *words)


def test_card_check_prints_faults_with_file_and_line(hydra: Callable[..., Answer], bundles: Path) -> None:
    assert hydra("card", "check", bundles / "a" / "a.yaml", bundles / "b").code == 0
    wrong = bundles / "wrong.yaml"
    wrong.write_text(changed(("tp: 2", "tp: 4")))
    answer = hydra("card", "check", wrong)
    assert answer.code == 2
    assert answer.err.startswith(f"error: {wrong}:")
    assert "contradictory parallelism" in answer.err


def test_card_check_as_json_lists_all_faults(hydra: Callable[..., Answer], bundles: Path) -> None:
    wrong = bundles / "wrong.yaml"
    wrong.write_text(changed(("tp: 2", "tp: 4"), ("- json", "- jsson")))
    answer = hydra("card", "check", wrong, "--json")
    found = json.loads(answer.out)
    assert answer.code == 2
    assert [fault["line"] for fault in found["faults"]] == sorted(fault["line"] for fault in found["faults"])
    assert len(found["faults"]) == 2


def test_card_schema_prints_a_json_schema(hydra: Callable[..., Answer]) -> None:
    found = json.loads(hydra("card", "schema").out)
    assert found["$schema"] == "https://json-schema.org/draft/2020-12/schema"


def test_trace_metrics_as_json_has_null_and_a_reason_for_what_is_missing(
    hydra: Callable[..., Answer], bundles: Path
) -> None:
    found = json.loads(hydra("trace", "metrics", bundles / "a", "--json").out)
    assert found["metrics"]["avg_step_time"] == pytest.approx(0.2)
    assert found["metrics"]["ttft_mean_s"] is None
    assert set(found["unavailable"]) == {name for name, value in found["metrics"].items() if value is None}
    assert found["units"]["bandwidth_utilization_allreduce_group_6"] == "GiB/s"


def test_trace_metrics_for_people_names_values_and_reasons(hydra: Callable[..., Answer], bundles: Path) -> None:
    answer = hydra("trace", "metrics", bundles / "a", "--only", "avg_step_time", "--only", "ttft_mean_s")
    assert "avg_step_time" in answer.out
    assert "no instants of requests" in answer.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("metrics", "nowhere"), "no such folder"),
        (("metrics", "all/a", "--only", "mffu"), "did you mean 'mfu'"),
        (("table", "nowhere"), "no such folder"),
        (("table", "all", "--only", "mffu"), "did you mean 'mfu'"),
        (("table", "all", "--out", "table.txt"), "ends in .csv or .html"),
        (("check", "nowhere"), "no such folder"),
    ],
)
def test_a_wrong_word_is_one_message(
    words: tuple[str, ...],
    said: str,
    hydra: Callable[..., Answer],
    bundles: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(bundles.parent)
    answer = hydra("trace", *words)
    assert (answer.code, said in answer.err) == (2, True), answer.err


def test_trace_table_writes_csv_and_html_and_prints_groups(
    hydra: Callable[..., Answer], bundles: Path, tmp_path: Path
) -> None:
    for name in ("t.csv", "t.html"):
        assert hydra("trace", "table", bundles, "--sort", "avg_step_time", "--out", tmp_path / name).code == 0
    assert (tmp_path / "t.csv").read_text().splitlines()[1].split(",")[1:] != []
    assert "<!doctype html>" in (tmp_path / "t.html").read_text()
    answer = hydra("trace", "table", bundles)
    assert "batch 32" in answer.out
    assert json.loads(hydra("trace", "table", bundles, "--json").out)["bundles"][0]["name"] == "a"


def test_trace_check_ends_with_two_where_a_rule_is_broken(hydra: Callable[..., Answer], bundles: Path) -> None:
    answer = hydra("trace", "check", bundles / "a", "--json")
    assert answer.code == 2
    (results,) = json.loads(answer.out)["bundles"].values()
    assert {each["rule"] for each in results if each["status"] == "fault"} == {"blocks per SM", "stream"}
    assert "error: stream:" in hydra("trace", "check", bundles / "a").err
