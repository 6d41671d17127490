"""The same bytes of `pareto.csv` from any number of workers, any hash seed, and after a kill at any moment."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hydra_dse.rng import derive
from studies.toy import ToyScorer, toy_experiment

SCRIPT = """
import signal
import sys
from studies.toy import ToyScorer, toy_experiment
from hydra_dse.studies.progress import Interrupted
from hydra_dse.studies.sweep import sweep

if __name__ == "__main__":
    path, workers, sampler, pause = sys.argv[1:]
    scorer = ToyScorer(pause_s=float(pause))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        sweep(toy_experiment(sampler=sampler), path, workers=int(workers), resume=True, scorer=scorer)
    except Interrupted as stopped:
        sys.exit(f"interrupted: {stopped}")
"""


def _start(script: Path, run: Path, workers: int = 1, sampler: str = "nsga2", hash_seed: str = "0", pause: float = 0.0):
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(Path(__file__).parent.parent)}
    words = [sys.executable, str(script), str(run), str(workers), sampler, str(pause)]
    return subprocess.Popen(words, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True)


def _run(script: Path, run: Path, **how) -> bytes:
    process = _start(script, run, **how)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    return (run / "pareto.csv").read_bytes()


@pytest.fixture(scope="module")
def script(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("script") / "sweep_toy.py"
    path.write_text(SCRIPT)
    return path


@pytest.fixture(scope="module")
def expected(tmp_path_factory, script) -> bytes:
    return _run(script, tmp_path_factory.mktemp("expected") / "run")


@pytest.mark.slow
@pytest.mark.parametrize("workers", [2, 4])
def test_the_number_of_workers_leaves_the_front_as_it_is(tmp_path, script, expected, workers):
    assert _run(script, tmp_path / "run", workers=workers) == expected


@pytest.mark.slow
@pytest.mark.parametrize("hash_seed", ["1", "4242"])
def test_the_hash_seed_leaves_the_front_as_it_is(tmp_path, script, expected, hash_seed):
    assert _run(script, tmp_path / "run", hash_seed=hash_seed) == expected


@pytest.mark.slow
def test_the_samplers_of_optuna_do_not_depend_on_the_hash_seed_either(tmp_path, script):
    fronts = [_run(script, tmp_path / seed, sampler="tpe", hash_seed=seed) for seed in ("1", "2")]
    assert fronts[0] == fronts[1]


@pytest.mark.slow
@pytest.mark.parametrize("kill", range(6))
def test_a_sweep_killed_at_any_moment_goes_on_to_the_same_front(tmp_path, script, expected, kill):
    """Six kills at random moments; every second one with two workers, whose processes must end as well."""
    run = tmp_path / "run"
    workers = 1 + kill % 2
    process = _start(script, run, workers=workers, pause=0.1)
    time.sleep(0.4 + 2.2 * float(derive(11, "kill", kill).random()))
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)  # returns only when no child holds the pipe any more
    assert _run(script, run) == expected


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_ctrl_c_ends_all_processes_with_one_line_and_a_run_that_goes_on(tmp_path, script, expected, workers):
    run = tmp_path / "run"
    process = _start(script, run, workers=workers, pause=0.3)
    while not (run / "log.jsonl").exists() or not (run / "log.jsonl").read_text():
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: parent and workers
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert errors.startswith("interrupted: stopped;")
    assert errors.count("\n") == 1
    assert _run(script, run) == expected


@pytest.mark.slow
def test_nothing_is_left_in_a_run_that_a_kill_between_two_writes_could_break(tmp_path):
    """Every prefix of the files a sweep writes, in order, is a run that goes on to the same front."""
    import shutil

    from hydra_dse.studies import files
    from hydra_dse.studies.sweep import sweep

    run, states = tmp_path / "run", []
    write = files.write_atomically

    def recording(path, data):
        write(path, data)
        copy = tmp_path / f"state{len(states):03}"
        shutil.copytree(run, copy)
        states.append(copy)

    experiment = toy_experiment(trials=100)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hydra_dse.studies.run_directory.write_atomically", recording)
        sweep(experiment, run, scorer=ToyScorer())
    assert len(states) > 10
    for state in states:
        sweep(experiment, state, resume=True, scorer=ToyScorer())
        assert (state / "pareto.csv").read_bytes() == (run / "pareto.csv").read_bytes()
        assert (state / "log.jsonl").read_bytes() == (run / "log.jsonl").read_bytes()
