"""The wheel: what it holds, and that it works from an empty directory without the checkout."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("build") is None, reason="the package `build` is not installed"),
]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout, built without isolation: its only build dependency is hatchling."""
    target = tmp_path_factory.mktemp("wheel")
    words = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(target), str(ROOT)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (found,) = target.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


@pytest.fixture(scope="module")
def unpacked(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("unpacked")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(target)
    return target


def files(folder: Path, *patterns: str) -> set[str]:
    """Files of the checkout below a folder, relative to it."""
    found = {path for pattern in patterns for path in folder.rglob(pattern) if "__pycache__" not in path.parts}
    return {path.relative_to(folder).as_posix() for path in found}


def run(unpacked: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A command of the unpacked wheel, started in an empty folder."""
    environment = {**os.environ, "PYTHONPATH": str(unpacked), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, "-m", "hydra_dse.cli", *words], cwd=folder, env=environment, capture_output=True, text=True,
        timeout=120, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("folder", ["workloads", "search_spaces", "experiments"])
def test_the_wheel_holds_all_data(names, folder):
    expected = files(ROOT / folder, "*.yaml", "*.json")
    assert expected
    assert {f"hydra_dse/_data/{folder}/{name}" for name in expected} <= names


def test_the_wheel_holds_both_packages_their_libraries_and_type_marks(names):
    for package in ("hydra_dse", "simulators"):
        assert {
            f"{package}/{name}" for name in files(ROOT / package, "*.py", "*.yaml", "*.css", "*.js", "py.typed")
        } <= names
        assert f"{package}/py.typed" in names
    assert "hydra_dse/library/chiplets.yaml" in names


def test_the_wheel_holds_nothing_else(names):
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"hydra_dse", "simulators"}
    assert not [name for name in names if "test" in Path(name).stem.split("_") or "__pycache__" in name]
    data = {name.split("/")[2] for name in names if name.startswith("hydra_dse/_data/")}
    assert data == {"workloads", "search_spaces", "experiments"}


def test_the_wheel_names_its_command_its_simulator_and_its_licence(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (points,) = (name for name in archive.namelist() if name.endswith("entry_points.txt"))
        (metadata,) = (name for name in archive.namelist() if name.endswith("METADATA"))
        entry_points, head = archive.read(points).decode(), archive.read(metadata).decode()
    assert "hydra-dse = hydra_dse.cli:main" in entry_points
    assert "[hydra_dse.simulators]\nserving = simulators.serving:ServingSimulator" in entry_points
    assert "License-Expression: Apache-2.0" in head


def test_names_are_found_in_the_wheel_and_not_in_the_checkout(unpacked, tmp_path):
    done = run(unpacked, tmp_path, "list", "models")
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.split()) == {
        Path(name).stem for name in files(ROOT / "workloads/models", "*.json", "*.yaml")
    }
    script = "from hydra_dse.config.finder import data_root; print(data_root())"
    environment = {**os.environ, "PYTHONPATH": str(unpacked)}
    where = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert where.stdout.strip() == str((unpacked / "hydra_dse" / "_data").resolve())


def test_the_main_job_runs_from_the_wheel_in_an_empty_directory(unpacked, tmp_path):
    setting = ("--set", "space=small-9", "--set", "workload.arrivals.rate=2/s", "--trials", "64", "--quiet")
    swept = run(unpacked, tmp_path, "sweep", "quickstart", *setting)
    assert swept.returncode == 0, swept.stderr
    validated = run(unpacked, tmp_path, "validate", "runs/quickstart", "--top", "1", "--requests", "50", "--quiet")
    assert validated.returncode == 0, validated.stderr
    reported = run(unpacked, tmp_path, "report", "runs/quickstart")
    assert reported.returncode == 0, reported.stderr
    assert (tmp_path / "runs" / "quickstart" / "report.html").is_file()
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]
