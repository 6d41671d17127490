"""The experiment of two packages, small: searched, built again from its run, taken apart."""

from __future__ import annotations

import pytest

from hydra_dse.config import load_experiment
from hydra_dse.estimator.explain import explain
from hydra_dse.placement import place_design
from hydra_dse.report.package import busy_links, floorplan
from hydra_dse.search.estimating import PLACEMENT_SEED
from hydra_dse.studies import design_of_run, sweep

SMALL = ["search.trials=24", "search.population=8", "rate=2 req/s", "calibration=default"]


@pytest.mark.slow
def test_two_packages_are_searched_and_their_hand_off_is_explained_and_drawn(tmp_path):
    experiment = load_experiment("duet", SMALL)
    result = sweep(experiment, tmp_path / "run")
    assert result.front
    design = design_of_run(tmp_path / "run", result.front[0].identity)
    assert [part.name for part in design.package.parts] == ["prefill", "decode"]
    placed, _ = place_design(design, experiment.workload.models, PLACEMENT_SEED)
    _, found = explain(placed, experiment.workload, experiment.calibration)
    row = found.handoff
    assert row is not None
    assert row.fabric_bytes == pytest.approx(row.kv_bytes + row.state_bytes)
    [link] = [link for link in row.links if link.fabric]
    assert (link.source, link.target) == ("prefill port 0", "decode port 0")
    assert row.moved_s > row.alone_s + row.latency_s
    drawn = floorplan(placed, busy_links(found), {}, "busy", {})
    assert len(drawn.tiles) == design.package.die_count + design.package.stack_count
    # The two packages stand side by side, and the link between them is drawn.
    ends = [
        max(tile.x_mm for tile in drawn.tiles if tile.group == "MP"),
        min(t.x_mm for t in drawn.tiles if t.group == "MD"),
    ]
    assert ends[0] < ends[1]
    assert any(
        wire.start[0] < ends[1] - 7 and wire.end[0] > ends[0] + 7 and wire.start[0] > ends[0] for wire in drawn.wires
    )
