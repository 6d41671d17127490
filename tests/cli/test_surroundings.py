"""What the machine around us refuses — a full disk, a closed output, a special file — ends in one message."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
from studies.toy import ToyScorer, toy_experiment

from hydra_dse.errors import InputError
from hydra_dse.studies import sweep

WORDS = f"{sys.executable} -m hydra_dse.cli"
ESTIMATE = ("estimate", "design.yaml", "--workload", "workload.yaml")
LONG = "a" * 300
FULL = Path("/dev/full")


def shell(text: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", f"{WORDS} {text}"], cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")
def test_an_output_without_room_is_told_in_one_line(inputs):
    ended = shell("list > /dev/full", inputs)
    assert ended.returncode == 2
    assert ended.stderr == "error: standard output: No space left on device\n"


def test_a_closed_output_is_told_in_one_line(inputs):
    ended = shell("list >&-", inputs)
    assert ended.returncode == 2
    assert ended.stderr == "error: standard output is closed; results have nowhere to go\n"


def test_a_terminal_without_our_characters_gets_question_marks(inputs, monkeypatch):
    monkeypatch.setenv("PYTHONIOENCODING", "latin-1")
    ended = shell(
        "estimate design.yaml --workload workload.yaml | iconv -f latin1 -t utf8; exit ${PIPESTATUS[0]}", inputs
    )
    assert ended.returncode == 0, ended.stderr
    assert "mm²" in ended.stdout
    assert "?" in ended.stdout


def test_an_argument_that_is_no_text_is_shown_as_bytes(inputs):
    ended = shell("list $'models\\xff'", inputs)
    assert ended.returncode == 2
    assert ended.stderr == "error: b'models\\xff' is not UTF-8 text; arguments must be\n"


@pytest.mark.parametrize(
    "words",
    [
        ("sweep", "experiment.yaml", "--out", LONG),
        ("report", LONG),
        ("check", LONG),
        (*ESTIMATE, "--model", LONG),
    ],
)
def test_a_name_that_is_too_long_for_the_file_system_is_named(hydra, inputs, words):
    answer = hydra(*words)
    assert answer.code == 2
    assert LONG in answer.err
    assert "File name too long" in answer.err


@pytest.mark.parametrize(
    "words",
    [
        ("check", "pipe.csv"),
        ("check", "pipe.yaml"),
        ("check", "/dev/null"),
        ("sweep", "pipe.yaml", "--out", "run"),
        ("estimate", "/dev/null", "--workload", "workload.yaml"),
        (*ESTIMATE, "--set", "workload.arrivals.trace=pipe.csv"),
    ],
)
def test_a_pipe_or_a_device_is_no_input_file(hydra, inputs, words):
    os.mkfifo("pipe.csv")
    os.mkfifo("pipe.yaml")
    try:
        answer = hydra(*words)
    finally:  # whoever reads a folder of ours must not wait for a pipe
        Path("pipe.csv").unlink()
        Path("pipe.yaml").unlink()
    assert answer.code == 2
    assert "is not a regular file" in answer.err


FULL_DISK = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("file", ["study.journal", "designs.parquet", "pareto.csv", "log.jsonl", "000001.parquet"])
def test_a_disk_that_fills_up_in_mid_sweep_is_told_and_resume_goes_on_to_the_same_bytes(tmp_path, monkeypatch, file):
    """Half of a file finds room; what was there before is kept."""
    opened = Path.open

    def fills_up(self: Path, mode: str = "r", *more: object, **named: object):
        stream = opened(self, mode, *more, **named)
        if file in self.name and mode in ("wb", "ab") and (tmp_path / "run" / "generations").exists():
            stream.write(b"half of a li")
            stream.close()
            raise FULL_DISK
        return stream

    sweep(toy_experiment(trials=60), tmp_path / "whole", scorer=ToyScorer())
    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", fills_up)
        with pytest.raises(InputError, match=rf"{file}: cannot write: No space left"):
            sweep(toy_experiment(trials=60), tmp_path / "run", scorer=ToyScorer())
    sweep(toy_experiment(trials=60), tmp_path / "run", scorer=ToyScorer(), resume=True)
    for name in ("pareto.csv", "designs.parquet", "log.jsonl"):
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert trials_of(tmp_path / "run") == trials_of(tmp_path / "whole")


def trials_of(run: Path) -> list[dict[str, object]]:
    """The trials that Optuna's tools find in the journal of a run."""
    import optuna

    storage = optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(str(run / "study.journal")))
    return [trial.params for trial in optuna.load_study(study_name="toy", storage=storage).trials]


@pytest.mark.slow
def test_a_file_where_the_plots_belong_is_named(hydra, workplace):
    import shutil

    shutil.rmtree("run/plots", ignore_errors=True)
    Path("run/plots").write_text("")
    answer = hydra("report", "run")
    assert answer.code == 2
    assert "run/plots: cannot write: File exists" in answer.err
