"""`hydra-dse export`: designs as inputs of other tools."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.pieces import Answer


def words(form: str, out: Path) -> tuple[object, ...]:
    return ("export", "design.yaml", "--to", form, "--out", out, "--workload", "workload.yaml")


def test_a_hotspot_folder_holds_the_estimated_power(hydra: Callable[..., Answer], inputs: Path) -> None:
    answer = hydra(*words("hotspot", inputs / "heat"))
    assert answer.code == 0
    watts = sum(map(float, (inputs / "heat" / "package.ptrace").read_text().splitlines()[1].split("\t")))
    estimated = json.loads(hydra("estimate", "design.yaml", "--workload", "workload.yaml", "--json").out)
    assert watts == pytest.approx(estimated["metrics"]["power_w"], rel=1e-4)


@pytest.mark.parametrize("form", ["rapidchiplet", "booksim"])
def test_a_folder_has_a_script_that_may_be_run_and_a_readme(
    hydra: Callable[..., Answer], inputs: Path, form: str
) -> None:
    assert hydra(*words(form, inputs / "out")).code == 0
    assert (inputs / "out" / "run.sh").stat().st_mode & 0o100
    assert "otherwise" in (inputs / "out" / "README.md").read_text()


def test_a_folder_that_holds_something_is_refused_and_kept(hydra: Callable[..., Answer], inputs: Path) -> None:
    (inputs / "mine").mkdir()
    (inputs / "mine" / "notes").write_text("mine")
    answer = hydra(*words("booksim", inputs / "mine"))
    assert answer.code == 2
    assert "holds 'notes'" in answer.err
    assert [file.name for file in (inputs / "mine").iterdir()] == ["notes"]


def test_an_unknown_tool_is_refused_with_the_known_ones(hydra: Callable[..., Answer], inputs: Path) -> None:
    answer = hydra(*words("gem5", inputs / "out"))
    assert answer.code == 2
    assert "rapidchiplet" in answer.err
