"""A report of a real run: its sections, its numbers, hostile names, its files."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from cli.pieces import call

from hydra_dse.errors import InputError
from hydra_dse.report import build_report
from hydra_dse.report.robustness import robustness_section
from hydra_dse.report.run import read_run
from hydra_dse.results.text import number

from .conftest import GROUP, HOSTILE
from .test_page import Tree

pytestmark = pytest.mark.slow

SECTIONS = {
    "Summary", "Pareto front", "Package", "Where the time goes", "Latencies", "Load", "Parameter importance",
    "Validation", "Provenance",
}  # fmt: skip


def test_a_report_has_its_sections_is_self_contained_and_small(report):
    html = report.read_text()
    tree = Tree(html)
    assert set(tree.texts) >= SECTIONS
    assert len(html) < 5e6
    assert not re.search(r"""(?:src|href)=["'](?!#)""", html)


def test_hostile_names_stay_text(report):
    html = report.read_text()
    tree = Tree(html)
    assert HOSTILE in tree.texts
    assert "x</title><img src=x>" in tree.texts
    tags = [tag for tag, _ in tree.tags]
    assert tags.count("script") == 2 and not {"img", "b", "i"} & set(tags)
    drawing = ElementTree.parse(report.parent / "plots" / "floorplan.svg")
    assert GROUP in [element.text for element in drawing.iter("{http://www.w3.org/2000/svg}text")]
    assert GROUP in tree.texts


def test_the_front_table_shows_every_design_with_value_and_interval(report):
    run = read_run(report.parent)
    texts = Tree(report.read_text()).texts
    for index in run.front:
        assert run.identity(index) in texts
        assert number(run.estimate("ttft_mean_s", index)) in texts


def test_the_validation_table_shows_estimate_simulation_and_error(report):
    run = read_run(report.parent)
    texts = set(Tree(report.read_text()).texts)
    assert run.validation
    for name in ("saturation_tokens_per_s", "ttft_mean_s"):
        for identity in run.simulated:
            row = run.validation[identity, name]
            assert {number(row.estimate), number(row.simulated), f"{100 * row.relative_error:+.1f} %"} <= texts


def test_every_figure_has_its_data_beside_it(report):
    plots = report.parent / "plots"
    stems = {path.stem for path in plots.iterdir()}
    assert stems >= {
        "front_ttft_mean_s", "parity_ttft_mean_s", "errors", "shares", "floorplan", "cdf_ttft", "load_ttft",
        "interactivity_throughput_tokens_per_s", "interactivity_throughput_tokens_per_s_per_w",
        "ttft_throughput_tokens_per_s", "importance",
    }  # fmt: skip
    assert any(stem.startswith("iteration_") for stem in stems)
    for stem in stems:
        assert {path.suffix for path in plots.glob(f"{stem}.*")} == {".png", ".svg", ".csv"}
    assert all(f'id="plot-{stem}"' in report.read_text() for stem in stems)


def test_the_data_of_the_front_figure_are_the_front(report):
    rows = list(csv.DictReader(io.StringIO((report.parent / "plots" / "front_ttft_mean_s.csv").read_text())))
    front = list(csv.DictReader(io.StringIO((report.parent / "pareto.csv").read_text())))
    assert [row["design"] for row in rows] == [row["design"] for row in front]
    assert [float(row["ttft_mean_s"]) for row in rows] == [float(row["ttft_mean_s"]) for row in front]


def test_a_page_built_again_has_the_same_bytes(report, copy):
    assert build_report(copy, figures=False).read_bytes() == report.read_bytes()
    assert not (copy / "plots").exists()


def test_what_a_run_lacks_is_named_with_the_reason(copy):
    for name in ("validation.csv", "pareto_validated.csv"):
        (copy / name).unlink()
    texts = Tree(build_report(copy, figures=False).read_text()).texts
    assert "Validation" not in texts
    assert "Validation: not simulated yet: run hydra-dse validate." in texts
    assert any(text.startswith("Robustness over models: the run directory has no robustness.csv") for text in texts)


def test_a_table_that_is_a_link_out_of_the_run_is_refused(copy, tmp_path):
    (tmp_path / "away.csv").write_text("design,model,metric,retained_share\n")
    (copy / "robustness.csv").symlink_to(tmp_path / "away.csv")
    with pytest.raises(InputError, match="link out of the run directory"):
        robustness_section(read_run(copy))


@pytest.mark.parametrize("name", ["robustness.csv", "validation.csv", "front_uncertainty.csv"])
def test_a_folder_in_the_place_of_a_table_is_told(copy, name):
    (copy / name).unlink(missing_ok=True)
    (copy / name).mkdir()
    with pytest.raises(InputError, match=rf"{name}.*cannot be read"):
        build_report(copy, figures=False)


def test_the_command_writes_the_page_alone_where_that_is_asked(copy, capsys):
    answer = call(capsys, "report", copy, "--no-figures")
    assert (answer.code, answer.out) == (0, f"report: {copy / 'report.html'}\n")
    assert Path(copy / "report.html").exists() and not (copy / "plots").exists()
