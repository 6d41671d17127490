"""A report of a real run: its sections, its numbers, hostile names, its files."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from hydra_dse.report import build_report
from hydra_dse.report.run import read_run
from hydra_dse.results.text import number

from .conftest import GROUP, HOSTILE
from .test_page import Tree

pytestmark = pytest.mark.slow


def test_a_report_has_its_sections_is_self_contained_and_small(report):
    html = report.read_text()
    tree = Tree(html)
    assert {"Summary", "Figures", "Pareto front", "Validation", "Provenance"} <= set(tree.texts)
    assert len(html) < 5e6
    assert not re.search(r"""(?:src|href)=["'](?!data:|#)""", html)


def test_hostile_names_stay_text(report):
    html = report.read_text()
    tree = Tree(html)
    assert HOSTILE in tree.texts
    assert "x</title><img src=x>" in tree.texts
    assert not {"script", "b", "i"} & {tag for tag, _ in tree.tags}
    drawing = ElementTree.parse(report.parent / "plots" / "floorplan.svg")
    assert GROUP in [element.text for element in drawing.iter("{http://www.w3.org/2000/svg}text")]


def test_the_front_table_shows_every_design_with_value_and_interval(report):
    run = read_run(report.parent)
    texts = Tree(report.read_text()).texts
    for index in run.front:
        assert run.designs.scores.identities[index] in texts
        assert number(float(run.designs.scores.metrics["ttft_mean_s"][index])) in texts


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
    assert {"front_ttft_mean_s", "parity_ttft_mean_s", "shares", "floorplan"} <= stems
    for stem in stems:
        assert {path.suffix for path in plots.glob(f"{stem}.*")} == {".png", ".svg", ".csv"}


def test_the_data_of_the_front_figure_are_the_front(report):
    rows = list(csv.DictReader(io.StringIO((report.parent / "plots" / "front_ttft_mean_s.csv").read_text())))
    front = list(csv.DictReader(io.StringIO((report.parent / "pareto.csv").read_text())))
    assert [row["design"] for row in rows] == [row["design"] for row in front]
    assert [float(row["ttft_mean_s"]) for row in rows] == [float(row["ttft_mean_s"]) for row in front]


def test_a_report_built_again_has_the_same_bytes(report, copy):
    build_report(copy)

    def files(folder: Path) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in [folder / "report.html", *(folder / "plots").iterdir()]}

    assert files(copy) == files(report.parent)


def test_a_run_without_validation_has_a_report_that_says_so(copy):
    for name in ("validation.csv", "pareto_validated.csv"):
        (copy / name).unlink()
    texts = Tree(build_report(copy).read_text()).texts
    assert "Validation" not in texts
    assert any("not simulated yet" in text for text in texts)
    assert not (copy / "plots" / "parity_ttft_mean_s.png").exists()
