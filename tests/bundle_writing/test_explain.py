"""Why one bundle beats another: times that add up, equal work, and overlap that ranks nothing."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from bundles import ONE_DIE, SMALL, written
from click.testing import CliRunner

from hydra_dse.bundle.explain import compare, read_breakdown
from hydra_dse.bundle.explain.overlap import device_spans, hidden_share, length, minus, parts_of_step, union
from hydra_dse.cli.app import app
from hydra_dse.errors import InputError


def _kernel(name: str, start: float, end: float) -> dict[str, Any]:
    return {"ph": "X", "cat": "kernel", "name": name, "ts": start, "dur": end - start, "pid": 0, "tid": 7}


def _foreign(folder: Path, steps: int, step_us: float, compute_us: float, shown_us: float, batch: int = 8) -> Path:
    """Steps with a computation, and a collective of which all but `shown_us` lies under it."""
    events: list[dict[str, Any]] = []
    for number in range(steps):
        at = number * step_us
        marker = {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{number}", "pid": 0, "tid": 1}
        events.append({**marker, "ts": at, "dur": step_us})
        events.append(_kernel("gemm", at, at + compute_us))
        events.append(_kernel("ncclDevKernel_AllReduce_Sum_RING_LL", at + 10.0, at + compute_us + shown_us))
    folder.mkdir()
    (folder / "rank0_trace.json").write_text(json.dumps({"traceEvents": events}))
    (folder / f"{folder.name}.yaml").write_text(
        "workload:\n  model: {model_family: llama-3.1-8b, precision: bf16}\n"
        f"  data: {{batch_size: {batch}, seq_len: 1024}}\n"
    )
    return folder


def test_intervals_are_joined_and_subtracted() -> None:
    joined = union([(5.0, 7.0), (0.0, 2.0), (1.0, 3.0), (4.0, 4.0)])
    assert joined == [(0.0, 3.0), (5.0, 7.0)]
    assert minus(joined, [(1.0, 2.0), (2.5, 6.0)]) == [(0.0, 1.0), (2.0, 2.5), (6.0, 7.0)]
    assert length(minus(joined, joined)) == 0.0


def test_a_step_falls_into_parts_that_add_up() -> None:
    events = [_kernel("gemm", 0.0, 60.0), _kernel("ncclDevKernel_AllGather", 40.0, 90.0)]
    parts = parts_of_step(device_spans(events), 0.0, 100.0)
    assert parts == pytest.approx({"compute": 60e-6, "communication: AllGather": 30e-6, "host and idle": 10e-6})
    assert hidden_share(events) == pytest.approx(20.0 / 50.0)
    assert hidden_share(events[:1]) is None


def test_more_overlap_and_yet_slower(tmp_path: Path) -> None:
    """A hides 9 of 10 parts of a long collective, B none of a short one: B shows less of it and wins."""
    a = read_breakdown(_foreign(tmp_path / "a", 4, 1200.0, 910.0, 100.0))
    b = read_breakdown(_foreign(tmp_path / "b", 4, 1000.0, 910.0, 20.0))
    longer = replace(a, overlap=0.9)
    found = compare(longer, b)
    assert found.equal_work.equal and found.faster("step") == "b"
    rows = {row.name: row for row in found.rows}
    assert rows["communication: AllReduce"].difference_s == pytest.approx(-80e-6)
    assert sum(row.difference_s for row in found.rows) == pytest.approx(-200e-6)
    assert sum(row.a_s for row in found.rows) == pytest.approx(found.totals["step"][0])


def test_a_batch_of_one_is_not_compared_with_one_of_32(tmp_path: Path) -> None:
    one = read_breakdown(_foreign(tmp_path / "one", 4, 1000.0, 900.0, 10.0, batch=1))
    many = read_breakdown(_foreign(tmp_path / "many", 4, 3000.0, 2900.0, 10.0, batch=32))
    with pytest.raises(InputError, match="batch_size 1 and 32"):
        compare(one, many)
    with pytest.raises(InputError, match="how many tokens"):
        compare(one, many, normalise=True)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """One design with plenty of decode slots, and with links of half the bandwidth."""
    folder = tmp_path_factory.mktemp("pair")
    written(folder / "fast")
    slower = (*SMALL.overrides, "design.package.link.bandwidth=128GB/s")
    written(folder / "slow", replace(SMALL, overrides=slower))
    return folder / "fast", folder / "slow"


@pytest.mark.slow
def test_narrower_links_show_in_communication_and_their_area_in_computation(pair: tuple[Path, Path]) -> None:
    fast, slow = (read_breakdown(folder) for folder in pair)
    found = compare(fast, slow, normalise=True)
    rows = {row.name: row for row in found.rows if row.phase == "prefill step"}
    # Links of a quarter of the bandwidth also leave more area to the cores of a die, so computation is faster.
    assert rows["communication: gather"].b_s > 2.0 * rows["communication: gather"].a_s
    assert rows["compute"].difference_s < 0.0
    for phase, (a, b) in found.totals.items():
        mine = [row for row in found.rows if row.phase == phase]
        assert sum(row.a_s for row in mine) == pytest.approx(a, rel=1e-3)
        assert sum(row.b_s for row in mine) == pytest.approx(b, rel=1e-3)


@pytest.mark.slow
def test_other_requests_are_other_work_and_are_normalised_only_when_asked(tmp_path: Path) -> None:
    written(tmp_path / "a", ONE_DIE)
    written(tmp_path / "b", replace(ONE_DIE, seed=1))
    a, b = read_breakdown(tmp_path / "a"), read_breakdown(tmp_path / "b")
    with pytest.raises(InputError, match="other requests"):
        compare(a, b)
    found = compare(a, b, normalise=True)
    assert found.equal_work.normalised_by == "token processed" and not found.equal_work.equal


def test_the_command_prints_the_published_shape_and_draws(tmp_path: Path) -> None:
    folders = [str(tmp_path / name) for name in ("a", "b")]
    for seed, folder in enumerate(folders):
        written(Path(folder), replace(ONE_DIE, seed=seed))
    picture = tmp_path / "waterfall.png"
    words = ["explain", *folders, "--normalise", "--json", "--plot", str(picture)]
    found = CliRunner().invoke(app, words)
    assert found.exit_code == 0, found.output
    data = json.loads(found.output)
    assert {"schema_version", "segments", "equal_work", "binding"} <= data.keys()
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_folder_without_traces_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="neither a card nor a trace"):
        read_breakdown(tmp_path)
