"""The calibration page says what the shipped fits say now."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.mark.slow
def test_the_page_is_what_its_script_writes_now() -> None:
    spec = importlib.util.spec_from_file_location("generate_calibration", DOCS / "generate_calibration.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    held = (DOCS / "calibration.md").read_text(encoding="utf-8")
    assert held == script.page(), "run `python docs/generate_calibration.py`"


def test_every_figure_of_the_page_exists_and_every_mark_was_replaced() -> None:
    text = (DOCS / "calibration.md").read_text(encoding="utf-8")
    assert "<<" not in text
    figures = [line.split("(")[1].rstrip(")") for line in text.splitlines() if line.startswith("![")]
    assert len(figures) == 6
    assert all((DOCS / figure).is_file() for figure in figures)
