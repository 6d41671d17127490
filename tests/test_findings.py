"""The page of findings says what the stored results say, and calls open what an interval leaves open."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[1] / "docs"


@pytest.fixture(scope="module")
def findings():
    spec = importlib.util.spec_from_file_location("generate_findings", DOCS / "generate_findings.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up by name
    sys.path.insert(0, str(DOCS))  # as for the script: parts of its page are modules beside it
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(DOCS))
    return module


def row(workload, value, low="", high="", contender="x"):
    ratios = {"ratio:max_rate": value, "ratio:max_rate:low": low, "ratio:max_rate:high": high}
    return {"model": "m", "workload": workload, "contender": contender, **ratios}


def test_the_page_is_that_of_the_stored_results(findings):
    assert (DOCS / "findings.md").read_text(encoding="utf-8") == findings.page(), "run docs/generate_findings.py"


def test_every_stored_result_is_on_the_page_with_its_command(findings):
    page = findings.page()
    for path in (DOCS / "findings").glob("*.csv"):
        run = next(run for run in findings.RUNS.values() if run.file == path.name)
        assert run.command in page


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [(0.9, 1.1, "undecided"), (1.0, 1.0, "the same"), (0.5, 0.99, "lower"), (1.01, 2.0, "higher"),
     (float("nan"), float("nan"), "undecided"), (1.0, 1.2, "undecided")],
)  # fmt: skip
def test_what_an_interval_leaves_open_is_called_undecided(findings, low, high, said):
    assert findings.verdict(low, high) == said


def test_an_interval_over_a_handful_of_loads_is_called_that(findings):
    assert findings.verdict(0.5, 0.9, loads=2) == "lower (few loads)"
    assert findings.verdict(0.5, 0.9, loads=12) == "lower"
    assert findings.verdict(0.5, 1.9, loads=2) == "undecided"


def test_one_load_has_the_interval_of_its_replications_and_several_that_over_loads(findings):
    alone = findings.figure([row("a", "2.0", "1.5", "2.5")], "x", "max_rate")
    assert (alone.low, alone.high, alone.cases) == (1.5, 2.5, 1)
    both = findings.figure([row("a", "2.0", "1.9", "2.1"), row("b", "0.5", "0.4", "0.6")], "x", "max_rate")
    assert (both.low, both.high) == pytest.approx((0.5, 2.0))
    assert both.below == 0.5
    assert findings.figure([row("a", "")], "x", "max_rate") is None
