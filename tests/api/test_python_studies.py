"""`compare`, `robustness`, `explain` and `whatif` from Python: tables, figures, mistakes in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from hydra_dse import compare, explain, robustness, whatif
from hydra_dse.errors import InputError

DIE, WORKLOAD = "h100", "azure-conversation"
GIVEN = """\
name: given
models: [nemotron-h-4b]
workloads: [{workload: hydra-chat, slo: {ttft: 500 ms}}]
compare:
  - {name: shipped, design: h100}
  - {name: small batches, of: shipped, change: {policy: {max_batch: 8}}}
fractions: [0.5]
primary: 0.5
simulation: {requests: 30, replications: 2, tolerance: 0.3}
"""


@pytest.mark.slow
def test_contenders_are_a_row_each_and_ratios_are_those_of_the_rates(tmp_path: Path) -> None:
    file = tmp_path / "given.yaml"
    file.write_text(GIVEN)
    found = compare(file, tmp_path / "run")
    frame = found.frame().set_index("contender")
    assert list(frame.index) == ["shipped", "small batches"]
    rate, ratio = "saturation_tokens_per_s", "ratio:saturation"
    assert frame.loc["small batches", ratio] == pytest.approx(
        frame.loc["small batches", rate] / frame.loc["shipped", rate], rel=0.02
    )
    assert (frame[f"{rate}:low"] >= 0).all() and (frame[f"{rate}:low"] <= frame[rate]).all()
    assert set(found.points()["contender"]) == {"shipped", "small batches"}
    assert set(found.summary()["contender"]) == {"small batches"}
    assert len(found.figure().axes[0].patches) == 2
    with pytest.raises(InputError, match="no figure of 'load'"):
        found.figure("load")


@pytest.mark.slow
def test_a_waterfall_leads_from_one_time_to_the_other() -> None:
    found = explain(DIE, DIE, WORKLOAD, requests=20)
    frame, totals = found.frame(), found.totals()
    assert (frame["difference_s"] == 0).all() and set(totals["faster"]) == {""}
    for _, phase in totals.iterrows():
        assert frame.loc[frame["phase"] == phase["phase"], "a_s"].sum() == pytest.approx(phase["a_s"], rel=0.02)
    assert len(found.figure().axes) == len(totals)


@pytest.mark.slow
def test_a_faster_resource_never_makes_a_die_slower() -> None:
    found = whatif(DIE, {"hbm": 2, "compute": 2}, WORKLOAD, requests=20, replications=2)
    gains = found.frame()
    assert list(gains.columns) == ["scaled", "metric", "gain", "low", "high"]
    assert set(gains["scaled"]) == {"hbm × 2", "compute × 2", "hbm × 2 and compute × 2"}
    steps = gains[gains["metric"] == "tpot_mean_s"].set_index("scaled")["gain"]
    assert steps["hbm × 2 and compute × 2"] >= steps["hbm × 2"] > 1.0
    assert (gains["low"] <= gains["gain"]).all() and (gains["gain"] <= gains["high"]).all()
    assert found.baseline["tpot_mean_s"] > 0
    [axes] = found.figure("tpot_mean_s").axes
    assert axes.get_xlabel() == "gain of TPOT mean [times better]"


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda _: explain("nowhere", DIE), "a design needs --workload"),
        (lambda _: whatif("nowhere"), "is no folder of a bundle; a design needs --workload"),
        (lambda _: whatif(DIE, {"noise": 2}, WORKLOAD), "did you mean 'noi'"),
        (lambda _: whatif(DIE, None, WORKLOAD, by="tpot"), "no gain of 'tpot'"),
        (lambda at: whatif(at, None, WORKLOAD), "is a bundle, which says itself"),
        (lambda at: robustness("quickstart", at / "out"), "robustness needs scenarios"),
        (lambda at: compare("quickstart", at / "out"), "has no section 'compare'"),
    ],
)
def test_a_mistake_is_told_in_one_line_and_writes_nothing(call: object, told: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=told):
        call(tmp_path)  # type: ignore[operator]
    assert list(tmp_path.iterdir()) == []
