"""Fixtures of the command-line tests: the command line in this process, input files, a finished run."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.pieces import Answer, call, write_inputs, write_run


@pytest.fixture
def hydra(capsys: pytest.CaptureFixture[str]) -> Callable[..., Answer]:
    """Call the command line with some words."""
    return lambda *words: call(capsys, *words)


@pytest.fixture
def inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with one small file of every kind."""
    write_inputs(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with inputs and a finished run; not to be changed."""
    folder = tmp_path_factory.mktemp("finished")
    write_inputs(folder)
    write_run(folder)
    return folder


@pytest.fixture
def workplace(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of that folder to break, as the working directory.

    The stored experiment names its inputs by absolute path: those stay the originals'.
    """
    folder = tmp_path / "place"
    shutil.copytree(finished, folder)
    monkeypatch.chdir(folder)
    return folder
