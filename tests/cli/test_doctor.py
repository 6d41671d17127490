"""`hydra-dse doctor`."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable
from importlib.metadata import EntryPoint, version
from pathlib import Path

import pytest

from cli.pieces import Answer


def test_it_names_versions_machine_simulators_and_data(hydra: Callable[..., Answer]) -> None:
    answer = hydra("doctor", "--json")
    assert answer.code == 0
    data = json.loads(answer.out)
    assert data["problems"] == []
    assert data["packages"]["numpy"] == version("numpy")
    assert data["program"]["python"].startswith(platform.python_version())
    assert data["simulators"]["serving"] == "simulators.serving:ServingSimulator"
    assert set(data["data"]) == {"workloads", "search_spaces", "experiments", "library"}


def test_it_names_what_other_packages_add(hydra: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("spread", "theirs:spread", "hydra_dse.placements")
    monkeypatch.setattr(
        "hydra_dse.studies.surroundings.entry_points", lambda group: [point] if group == point.group else []
    )
    assert json.loads(hydra("doctor", "--json").out)["extensions"] == {"hydra_dse.placements: spread": "theirs:spread"}


def test_the_text_says_that_there_is_no_problem(hydra: Callable[..., Answer]) -> None:
    assert hydra("doctor").out.rstrip().endswith("no problems found")


def test_another_package_named_simulators_is_a_problem(
    hydra: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "simulators").mkdir()
    (tmp_path / "simulators" / "__init__.py").touch()
    monkeypatch.setattr("hydra_dse.studies.simulators.find_spec", lambda _: _Spec(tmp_path / "simulators"))
    answer = hydra("doctor")
    assert answer.code == 1
    assert f"found at {tmp_path / 'simulators'} is not the one of hydra-dse" in answer.out


class _Spec:
    def __init__(self, place: Path) -> None:
        self.submodule_search_locations = [str(place)]
