"""What only shows in a process of its own: signals, closed pipes, what is imported, one thread each."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cli.pieces import replace, write_inputs

WORDS = [sys.executable, "-m", "hydra_dse.cli"]
SLOW_SWEEP = ["sweep", "experiment.yaml", "--out", "run"]
HEAVY = {"numpy", "pydantic", "optuna", "scipy", "pandas", "matplotlib", "simpy", "networkx", "pyarrow", "rich"}


def environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    return {**kept, **more}


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*WORDS, *words], cwd=folder, env=environment(), capture_output=True, text=True, timeout=120, check=False
    )


def start(folder: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*WORDS, *words], cwd=folder, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip


def wait_for(process: subprocess.Popen[str], found) -> None:
    deadline = time.monotonic() + 60
    while not found():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)


def lengthen(folder: Path) -> Path:
    """An experiment that takes some seconds: the hydra-24 space in many small generations."""
    replace(folder / "experiment.yaml", "space: space.yaml", "space: hydra-24")
    replace(folder / "experiment.yaml", "trials: 24, population: 8", "trials: 320, population: 8")
    return folder


@pytest.fixture
def long_inputs(inputs: Path) -> Path:
    return lengthen(inputs)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The front of the same experiment, swept without a break."""
    folder = tmp_path_factory.mktemp("undisturbed")
    write_inputs(folder)
    done = run(lengthen(folder), *SLOW_SWEEP, "--quiet")
    assert done.returncode == 0, done.stderr
    return (folder / "run" / "pareto.csv").read_bytes()


def generations(folder: Path) -> int:
    log = folder / "run" / "log.jsonl"
    return len(log.read_text().splitlines()) if log.exists() else 0


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["1", "2"])
def test_ctrl_c_ends_a_sweep_within_two_seconds_and_resume_goes_on_with_it(long_inputs, undisturbed, workers):
    process = start(long_inputs, *SLOW_SWEEP, "--workers", workers)
    wait_for(process, lambda: generations(long_inputs) >= 2)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to every process of the job
    asked = time.monotonic()
    out, err = process.communicate(timeout=30)
    assert time.monotonic() - asked < 2.0
    assert (process.returncode, out) == (130, "")
    assert "continue with --resume" in err and "Traceback" not in err
    kept = generations(long_inputs)
    resumed = run(long_inputs, *SLOW_SWEEP, "--resume", "--quiet")
    assert resumed.returncode == 0, resumed.stderr
    assert generations(long_inputs) > kept
    assert (long_inputs / "run" / "pareto.csv").read_bytes() == undisturbed


def test_an_interrupt_inside_code_that_is_made_of_text_ends_with_our_exit_code(tmp_path):
    """As CPython ends otherwise: killed by SIGINT, though the interrupt was handled."""
    code = (
        "from hydra_dse import cli\n"
        "def stopped():\n"
        "    try:\n"
        "        exec('raise KeyboardInterrupt')\n"
        "    except KeyboardInterrupt:\n"
        "        return cli.INTERRUPTED\n"
        "cli._refused = stopped\n"
        "cli.main()\n"
    )
    (tmp_path / "pressed.py").write_text(code)
    assert subprocess.run([sys.executable, "-m", "pressed"], cwd=tmp_path, check=False).returncode == 130


@pytest.mark.slow
def test_a_killed_sweep_is_resumed_to_the_same_bytes(long_inputs, undisturbed):
    process = start(long_inputs, *SLOW_SWEEP, "--workers", "2")
    wait_for(process, lambda: generations(long_inputs) >= 3)
    process.kill()
    process.communicate(timeout=30)  # returns only when no worker holds the pipe any more
    assert run(long_inputs, *SLOW_SWEEP, "--resume", "--quiet").returncode == 0
    assert (long_inputs / "run" / "pareto.csv").read_bytes() == undisturbed


@pytest.mark.slow
def test_ctrl_c_ends_a_validation_and_a_second_call_goes_on_with_it(workplace):
    words = ["validate", "run", "--requests", "4000", "--replications", "8"]
    lock = workplace / "run" / ".lock"
    lock.unlink()
    process = start(workplace, *words)
    wait_for(process, lock.exists)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    asked = time.monotonic()
    _, err = process.communicate(timeout=30)
    assert time.monotonic() - asked < 2.0
    assert process.returncode == 130, err
    assert "Traceback" not in err and "stopped" in err


def test_a_reader_that_has_enough_ends_a_list_quietly(inputs):
    process = subprocess.run(
        f"{sys.executable} -m hydra_dse.cli list | head -1", shell=True, cwd=inputs, env=environment(),
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (process.stdout, process.stderr) == ("models:\n", "")


@pytest.mark.slow
def test_a_closed_pipe_is_no_error(inputs):
    process = start(inputs, "model", "show", "nemotron-h-8b")
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.wait(timeout=60) == 0


def modules_of(folder: Path, *words: str) -> tuple[set[str], dict[str, str]]:
    """Modules that a command loads, and its environment; what is bound and never used is not loaded."""
    script = (
        "import json, os, sys\n"
        f"sys.argv = ['hydra-dse', *{list(words)!r}]\n"
        "from hydra_dse.cli import main\n"
        "try:\n    main()\nexcept SystemExit as ended:\n    assert not ended.code, ended.code\n"
        "loaded = [name for name, module in sys.modules.items() if type(module).__name__ != '_Deferred']\n"
        "names = sorted({*loaded, *(name.split('.')[0] for name in loaded)})\n"
        "print(json.dumps([names, dict(os.environ)]), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=folder, env=environment(), capture_output=True, text=True, timeout=60,
        check=True,
    )  # fmt: skip
    names, variables = json.loads(done.stderr.splitlines()[-1])
    return set(names), variables


@pytest.mark.parametrize(
    "words", [("--help",), ("--version",), ("sweep", "--help"), ("estimate", "--help")], ids=" ".join
)
def test_help_imports_nothing_heavy(inputs, words):
    assert not modules_of(inputs, *words)[0] & HEAVY


@pytest.mark.slow
def test_a_check_of_a_model_needs_no_search_and_no_plots(inputs):
    found = modules_of(inputs, "check", "model/config.json")[0]
    assert not found & {"optuna", "simpy", "matplotlib", "pandas", "pyarrow", "scipy"}


def test_a_check_of_an_experiment_needs_no_arrays_no_search_and_no_plots(inputs):
    found = modules_of(inputs, "check", "experiment.yaml")[0]
    assert not found & (HEAVY - {"pydantic"})
    assert "pydantic" in found


def test_a_check_of_an_experiment_loads_no_readers_and_nouns_of_other_files(inputs):
    found = modules_of(inputs, "check", "experiment.yaml")[0]
    assert "hydra_dse.config.spaces" in found
    others = {"hydra_dse.design.comparison", "hydra_dse.hardware.technology", "hydra_dse.workload.traces.read"}
    assert not found & others


def test_sections_are_built_when_they_are_used_and_without_plugins_of_other_packages():
    script = (
        "import hydra_dse.cli\n"
        "from hydra_dse.config.experiment_schema import DynamicSection, SearchSection\n"
        "SearchSection.model_validate({'trials': 3})\n"
        "from pydantic.plugin import _loader\n"
        "print(SearchSection.__pydantic_complete__, DynamicSection.__pydantic_complete__, _loader._plugins)"
    )
    done = subprocess.run([sys.executable, "-c", script], env=environment(), capture_output=True, text=True, check=True)
    assert done.stdout == "True False None\n"


def test_a_check_of_a_trace_makes_arrays(inputs):
    rows = "".join(f"{second}.5,{100 + second},{10 + second}\n" for second in range(4))
    (inputs / "trace.csv").write_text("arrived_at,num_prefill_tokens,num_decode_tokens\n" + rows)
    assert "numpy" in modules_of(inputs, "check", "trace.csv")[0]


@pytest.mark.slow
def test_an_estimate_needs_no_search_no_simulator_and_no_plots(inputs):
    found = modules_of(inputs, "estimate", "design.yaml", "--workload", "workload.yaml")[0]
    assert not found & {"optuna", "simpy", "matplotlib", "pandas"}


def test_a_process_computes_with_one_thread(inputs):
    variables = modules_of(inputs, "--version")[1]
    assert (variables["OMP_NUM_THREADS"], variables["OPENBLAS_NUM_THREADS"]) == ("1", "1")


def test_a_users_number_of_threads_stands():
    script = "import os, hydra_dse.cli; print(os.environ['OMP_NUM_THREADS'])"
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment(OMP_NUM_THREADS="3"), capture_output=True, text=True, check=True
    )
    assert done.stdout == "3\n"
