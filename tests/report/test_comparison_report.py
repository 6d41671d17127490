"""The report of a comparison: what its tables say, safely, and what a damaged table leads to."""

from __future__ import annotations

import csv

import pytest

from hydra_dse.config import load_comparison
from hydra_dse.errors import InputError
from hydra_dse.report import build_report
from hydra_dse.studies.comparison.course import OWN, REFERENCE, Case, Measured
from hydra_dse.studies.comparison.designs import Choice
from hydra_dse.studies.comparison.measuring import LATENCIES
from hydra_dse.studies.comparison.runs import ComparisonRun
from hydra_dse.studies.comparison.table import compared, compared_csv, points_csv, summary_csv, summary_rows

HOSTILE = "<script>alert(1)</script>"
FILE = f"""\
name: small
purpose: {HOSTILE}
models: [jamba-tiny]
workloads: [WORKLOADS]
compare:
  - {{name: base, design: hydra-24-nemotron-chat}}
  - {{name: "{HOSTILE}", of: base, change: {{placement: round_robin}}}}
  - {{name: broken, of: base, change: {{placement: random}}}}
fractions: [0.5]
primary: 0.5
"""
CHAT, LONG = "{workload: hydra-chat, slo: {ttft: 1 s}}", "{workload: hydra-longwriter, slo: {ttft: 1 s}}"


def measured(name, speed):
    rates = [{"saturation_requests_per_s": speed * noise, "saturation_tokens_per_s": 9 * speed * noise,
              "max_rate_requests_per_s": 0.8 * speed * noise, "area_mm2": 100.0} for noise in (1.0, 1.1)]  # fmt: skip
    points = tuple(dict.fromkeys(LATENCIES, 1.0 / speed) for _ in rates)
    at = {(REFERENCE, 0.5): (4.0, points), (OWN, 0.5): (0.4 * speed, points)}
    return Measured(
        name, Choice(name, {"n": 1}), node_nm=22.0, guess=1.0, unit_cost_usd=500.0, iso_node_mm2=50.0,
        recurring_usd=100.0, rates=tuple(rates), points=at,
    )  # fmt: skip


def written(folder, workloads):
    file = folder / "small.yaml"
    file.write_text(FILE.replace("WORKLOADS", ", ".join(workloads)))
    comparison = load_comparison(file)
    run = ComparisonRun(folder / "run", comparison, False, ["hydra-dse", "compare", "small.yaml"])
    broken = Measured("broken", Choice("broken", {}), violations=("no place",))
    cases = [
        Case(place, "max_rate", (measured("base", 10.0), measured(HOSTILE, 10.0 + 5.0 * (place + 1)), broken))
        for place in range(len(workloads))
    ]
    rows = [row for case in cases for row in compared(comparison, case)]
    run.write("compare.csv", compared_csv(comparison, rows))
    run.write("points.csv", points_csv(comparison, cases))
    run.write("summary.csv", summary_csv(summary_rows(comparison, rows)))
    run.finish()
    return run.path


@pytest.fixture
def one(tmp_path):
    return written(tmp_path, [CHAT])


def test_the_page_shows_ratios_cases_and_latencies_with_hostile_names_as_text(one):
    page = build_report(one, figures=False).read_text()
    assert HOSTILE not in page
    assert "&lt;script&gt;alert(1)" in page
    for heading in ("Summary", "Ratios", "Cases", "Latencies", "Provenance"):
        assert f">{heading}</h2>" in page
    assert "no place" in page
    assert "hydra-dse compare small.yaml" in page


@pytest.mark.slow
def test_every_drawing_of_a_comparison_has_its_data(one):
    build_report(one)
    with (one / "plots" / "ratio_max_rate.csv").open() as stream:
        [row] = csv.DictReader(stream)
    assert float(row["ratio"]) == pytest.approx(1.5)
    stems = {path.stem for path in (one / "plots").iterdir()}
    assert {"ratio_saturation", "ratio_max_rate_per_usd", "ratio_max_rate_per_iso_mm2", "ttft_0"} <= stems
    assert all((one / "plots" / f"{stem}.{kind}").exists() for stem in stems for kind in ("png", "svg", "csv"))


def test_a_page_built_again_is_the_same_and_several_loads_have_a_drawing_each(tmp_path):
    run = written(tmp_path, [CHAT, LONG])
    page = build_report(run, figures=False).read_bytes()
    assert build_report(run, figures=False).read_bytes() == page
    assert page.count(b'id="plot-ttft_') == 2


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("compare.csv", "parameters", "parameter", "no column 'parameters'"),
        ("summary.csv", ",1.5,", ",fast,", "no number"),
        ("points.csv", "basis", "bases", "no column 'basis'"),
    ],
)
def test_a_damaged_table_of_a_comparison_is_told(one, file, old, new, message):
    text = (one / file).read_text()
    changed = text.replace(old, new) if old in text else text.replace("1.4999999999999998", "fast")
    assert changed != text
    (one / file).write_text(changed)
    with pytest.raises(InputError, match=message):
        build_report(one, figures=False)
    assert not (one / "report.html").exists()


def test_a_table_of_cases_that_lacks_a_contender_of_the_summary_is_told(one):
    rows = (one / "compare.csv").read_text().splitlines(keepends=True)
    (one / "compare.csv").write_text("".join(rows[:2]))
    with pytest.raises(InputError, match=r"compare\.csv.*has no row of .* of which summary\.csv tells"):
        build_report(one, figures=False)


def test_a_comparison_without_a_finished_load_is_told(one):
    (one / "compare.csv").unlink()
    with pytest.raises(InputError, match="no finished load yet"):
        build_report(one, figures=False)
