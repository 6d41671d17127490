"""What-if: scaled runs with overlap kept, limits of theory, and replay of foreign traces."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from bundles import ONE_DIE, SMALL, written
from click.testing import CliRunner

from hydra_dse.bundle.whatif import Scale, graph_of, parse_scale, replay, scaled, what_if
from hydra_dse.cli.app import app
from hydra_dse.design.nouns import Design
from hydra_dse.errors import InputError
from hydra_dse.results import Evaluation

FREE = replace(SMALL, requests=20)


def test_scaling_touches_one_resource_and_nothing_else() -> None:
    design = SMALL.placed[0]
    twice = scaled(design, [Scale("noi", 2.0)])
    assert twice.package.link_bandwidth_bytes_per_s == 2.0 * design.package.link_bandwidth_bytes_per_s
    assert replace(twice, package=design.package) == design and twice.package.memories == design.package.memories
    assert scaled(twice, [Scale("noi", 0.5)]) == design
    assert SMALL.evaluate(design=twice).feasible
    vector = scaled(design, [Scale("compute:vector", 3.0)]).package.dies[0].chiplet
    assert vector.matmul_flops_per_s == design.package.dies[0].chiplet.matmul_flops_per_s
    assert vector.vector_flops_per_s == 3.0 * design.package.dies[0].chiplet.vector_flops_per_s
    group = scaled(design, [Scale("compute:Md", 2.0)]).package.dies
    changed = [new.name for old, new in zip(design.package.dies, group, strict=True) if old != new]
    assert changed == ["Md"]


@pytest.mark.parametrize("text", ["noc=2", "noi", "noi=0", "noi=x", "compute:Zz=2", "noi=-1", "noi=nan"])
def test_a_scale_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="--scale"):
        parse_scale(text, ["Md"])


@pytest.mark.slow
def test_gains_are_paired_and_bounded_by_the_factors() -> None:
    """Doubling every rate at most halves a time, and no single resource gains more than all of them."""
    runs = [replace(ONE_DIE, replications=1, seed=seed) for seed in range(2)]

    def simulate(design: Design) -> list[Evaluation]:
        return [run.evaluate(design=design) for run in runs]

    scales = [Scale(name, 2.0) for name in ("hbm", "compute", "sram")]
    found = what_if(ONE_DIE.placed[0], scales, simulate, "tpot_mean_s")
    assert len(found.sensitivities) == 6
    gains = {tuple(s.resource for s in each.scales): each.gains["tpot_mean_s"] for each in found.sensitivities}
    for names, gain in gains.items():
        assert 1.0 - 1e-9 <= gain.mean <= 2.0
        assert gain.low <= gain.mean <= gain.high
        assert all(gain.mean >= gains[name,].mean - 1e-9 for name in names)
    # One sequence after the other reads all weights a token: memory is what decode on one die waits for.
    assert found.sensitivities[0].scales[0].resource == "hbm"


def test_a_resource_twice_is_refused() -> None:
    with pytest.raises(InputError, match="once"):
        what_if(SMALL.placed[0], [Scale("noi", 2.0), Scale("noi", 4.0)], lambda design: [], "tpot_mean_s")


def test_the_command_replays_the_bundle_and_ranks_the_resources(tmp_path: Path) -> None:
    written(tmp_path / "b", ONE_DIE)
    words = ["whatif", str(tmp_path / "b"), "--scale", "hbm=2", "--scale", "compute=2", "--replications", "1", "--json"]
    found = CliRunner().invoke(app, words)
    assert found.exit_code == 0, found.output
    data = json.loads(found.output)
    assert data["replayed"] is True and len(data["sensitivities"]) == 3
    metrics = json.loads((tmp_path / "b" / "metrics.json").read_text())
    assert data["baseline"]["tpot_mean_s"] == metrics["metrics"]["tpot_mean_s"]
    metrics["metrics"]["tpot_mean_s"] *= 1.001
    (tmp_path / "b" / "metrics.json").write_text(json.dumps(metrics))
    assert isinstance(CliRunner().invoke(app, words).exception, (InputError, SystemExit))


def _event(name: str, start: float, end: float, stream: int, number: int | None = None) -> dict[str, Any]:
    args = {} if number is None else {"External id": number}
    return {"ph": "X", "cat": "kernel", "name": name, "ts": start, "dur": end - start, "tid": stream, "args": args}


CHAIN = [
    _event("gemm", 0.0, 60.0, 7),
    _event("ncclDevKernel_AllReduce", 60.0, 100.0, 20, 1),
    _event("gemm", 102.0, 150.0, 7),
]


def test_an_unscaled_replay_takes_the_recorded_time() -> None:
    other = [_event("gemm", 0.0, 50.0, 7), _event("ncclDevKernel_AllReduce", 58.0, 100.0, 20, 1)]
    assert replay(graph_of([CHAIN, other]), {}) == pytest.approx(150.0)


def test_a_chain_shrinks_by_what_is_scaled_and_keeps_its_gaps() -> None:
    nodes = graph_of([CHAIN])
    assert replay(nodes, {"noi": 2.0}) == pytest.approx(60.0 + 20.0 + 2.0 + 48.0)
    assert replay(nodes, {"compute": 2.0}) == pytest.approx(30.0 + 40.0 + 2.0 + 24.0)


def test_what_was_hidden_stays_hidden() -> None:
    events = [_event("gemm", 0.0, 100.0, 7), _event("ncclDevKernel_AllGather", 10.0, 50.0, 20)]
    nodes = graph_of([events])
    assert replay(nodes, {"noi": 4.0}) == pytest.approx(100.0)


def test_a_collective_waits_for_its_last_rank() -> None:
    slow = [_event("gemm", 0.0, 90.0, 7), _event("ncclDevKernel_AllReduce", 90.0, 100.0, 20, 1)]
    fast = [_event("gemm", 0.0, 10.0, 7), _event("ncclDevKernel_AllReduce", 10.0, 100.0, 20, 1)]
    nodes = graph_of([slow, fast])
    assert replay(nodes, {}) == pytest.approx(100.0)
    assert replay(nodes, {"compute": 2.0}) == pytest.approx(45.0 + 10.0)
    assert replay(nodes, {"noi": 2.0}) == pytest.approx(90.0 + 5.0)


def test_a_trace_without_kernels_is_refused() -> None:
    with pytest.raises(InputError, match="neither kernels nor copies"):
        graph_of([[]])
