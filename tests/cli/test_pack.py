"""`hydra-dse pack`: archives of runs."""

from __future__ import annotations

import hashlib
import shutil
import tarfile
import tracemalloc
from pathlib import Path

import pytest

from cli.pieces import small_run
from hydra_dse.errors import InputError
from hydra_dse.studies.archive_of_run import pack


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_run(tmp_path_factory.mktemp("packed"), seed=1)


def test_equal_runs_give_equal_archives_whatever_the_dates(run: Path, tmp_path: Path) -> None:
    twin = tmp_path / "twin" / run.name
    shutil.copytree(run, twin)
    for file in twin.rglob("*"):
        file.touch()
    one, other = pack(run, tmp_path / "one.tar.gz"), pack(twin, tmp_path / "other.tar.gz")
    assert one.path.read_bytes() == other.path.read_bytes()
    assert one.sha256 == hashlib.sha256(one.path.read_bytes()).hexdigest()


def test_an_archive_holds_the_run_and_the_inputs_by_digest(run: Path, tmp_path: Path) -> None:
    packed = pack(run, tmp_path / "run.tar.gz")
    with tarfile.open(packed.path) as archive:
        names = set(archive.getnames())
        stored = archive.extractfile(f"{run.name}/pareto.csv")
        assert stored is not None
        assert stored.read() == (run / "pareto.csv").read_bytes()
    assert f"{run.name}/REPRODUCE.md" in names
    assert any("/inputs/" in name and name.endswith("workload.yaml") for name in names)
    assert packed.members == len(names)
    assert not packed.missing_inputs


def test_memory_of_packing_does_not_grow_with_the_run(run: Path, tmp_path: Path) -> None:
    large = tmp_path / "large"
    shutil.copytree(run, large)
    (large / "records").mkdir()
    (large / "records" / "visits.parquet").write_bytes(bytes(32 << 20))
    tracemalloc.start()
    pack(large, tmp_path / "large.tar.gz")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 << 20


@pytest.mark.slow
def test_an_input_that_has_changed_is_named_and_not_packed(run: Path, tmp_path: Path) -> None:
    folder = tmp_path / "changed"
    own = small_run(folder, seed=1)
    workload = folder / "workload.yaml"
    workload.write_text(workload.read_text() + "\n")
    packed = pack(own, tmp_path / "changed.tar.gz")
    assert packed.missing_inputs == (str(workload.resolve()),)


def test_a_link_out_of_the_run_is_refused_and_nothing_written(run: Path, tmp_path: Path) -> None:
    twin = tmp_path / "linked"
    shutil.copytree(run, twin)
    (tmp_path / "secret").write_text("secret")
    (twin / "plots").mkdir()
    (twin / "plots" / "secret.png").symlink_to(tmp_path / "secret")
    with pytest.raises(InputError, match="link out of the run"):
        pack(twin, tmp_path / "linked.tar.gz")
    assert not (tmp_path / "linked.tar.gz").exists()


def test_an_archive_that_is_there_is_not_overwritten(run: Path, tmp_path: Path) -> None:
    (tmp_path / "there.tar.gz").write_text("mine")
    with pytest.raises(InputError, match="there already"):
        pack(run, tmp_path / "there.tar.gz")
    assert (tmp_path / "there.tar.gz").read_text() == "mine"
