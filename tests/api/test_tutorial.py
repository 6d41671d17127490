"""The tutorial runs as it is written, and what it says of the results holds."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

TUTORIAL = Path(__file__).resolve().parents[2] / "docs" / "tutorial.md"


@pytest.mark.slow
def test_the_python_of_the_tutorial_runs_and_leaves_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = TUTORIAL.read_text(encoding="utf-8")
    names: dict[str, object] = {}
    for number, block in enumerate(re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)):
        exec(compile(block, f"tutorial.md, block {number + 1}", "exec"), names)
    for file in re.findall(r'savefig\("([^"]+)"', text):
        assert (tmp_path / file).stat().st_size > 5_000
    assert (tmp_path / "runs/tutorial/pareto.csv").is_file()
    designs = names["designs"]
    assert designs["front"].sum() == len(names["run"].front)  # type: ignore[index, attr-defined]
    assert len(designs) >= 48  # type: ignore[arg-type]
    assert 0 < names["share"] <= 1  # type: ignore[operator]
    assert math.isclose(names["ratio"], 1.0, rel_tol=0.35)  # type: ignore[arg-type]
    busier = names["busier"]["value"]  # type: ignore[index]
    assert busier["load"] == pytest.approx(3 * names["estimated"][0].metrics["load"], rel=0.05)  # type: ignore[index]
    parts = names["parts"]
    for _, phase in names["waterfall"].totals().iterrows():  # type: ignore[attr-defined]
        both = parts[parts["phase"] == phase["phase"]]  # type: ignore[index]
        assert both["difference_s"].sum() == pytest.approx(phase["b_s"] - phase["a_s"], rel=0.02)
    gains = names["gains"].frame().set_index(["scaled", "metric"])["gain"]  # type: ignore[attr-defined]
    assert gains["noi × 2 and hbm × 2", "tpot_mean_s"] >= gains["hbm × 2", "tpot_mean_s"] > 0.99
    assert names["shares"].to_numpy().max() <= 1.0 + 1e-9  # type: ignore[attr-defined]
    assert names["odds"]["p_in_front"].max() > 0  # type: ignore[index]
