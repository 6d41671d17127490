"""A small validated run with hostile names, and its report."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from cli.pieces import replace, write_inputs, write_run

from hydra_dse.report import build_report

HOSTILE = "<script>alert(1)</script>"
GROUP = "A<b>'&\"p"


@pytest.fixture(scope="session")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run whose names are those of an attacker; not to be changed."""
    folder = tmp_path_factory.mktemp("report")
    write_inputs(folder)
    replace(folder / "experiment.yaml", "purpose: a test", f'purpose: {HOSTILE}\nsource: "x</title><img src=x>"')
    space = (folder / "space.yaml").read_text()
    space = space.replace("  Ap: {chiplet", "  'A<b>''&\"p': {chiplet")
    (folder / "space.yaml").write_text(space)
    return write_run(folder)


@pytest.fixture
def copy(run_dir: Path, tmp_path: Path) -> Path:
    """A copy of the run to write a report into."""
    shutil.copytree(run_dir, tmp_path / "run")
    return tmp_path / "run"


@pytest.fixture(scope="session")
def report(run_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of the run."""
    target = tmp_path_factory.mktemp("page") / "run"
    shutil.copytree(run_dir, target)
    return build_report(target)
