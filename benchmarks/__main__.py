"""`python -m benchmarks [--long]`: writes bench.json, each figure with its unit and, where there is one, its ratio.

A ratio compares with a reference measured in the same run on the same machine, which is what can be compared
between machines: the readable scalar profile, random search, decode-only stepping without fast-forward.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

for _threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_threads, "1")

from benchmarks.timing import cpu_seconds  # noqa: E402
from hydra_dse.config import load_calibration, load_experiment, load_space, load_workload  # noqa: E402


@dataclass(frozen=True)
class Figure:
    """One measured figure; `ratio` is value / reference where there is a reference."""

    value: float
    unit: str
    reference: float | None = None
    ratio: float | None = None


def compared(value: float, unit: str, reference: float) -> Figure:
    return Figure(value, unit, reference, value / reference)


def start_up() -> dict[str, Figure]:
    """CPU time of whole processes."""
    found = {}
    for name, arguments in (
        ("help", ["--help"]),
        ("check_model", ["check", "nemotron-h-8b"]),
        ("check", ["check", "quickstart"]),
    ):
        used = []
        for _ in range(3):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run([sys.executable, "-m", "hydra_dse", *arguments], check=True, capture_output=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            used.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        found[f"start_up_{name}_cpu"] = Figure(min(used), "s")
    return found


def profile_speed() -> dict[str, Figure]:
    """Iteration times of 96 designs at 32 batches: vectorised against the scalar reference."""
    import numpy as np

    from hydra_dse.model.operators import Batch
    from hydra_dse.placement import place_design
    from hydra_dse.profile import build_profile
    from hydra_dse.profile.reference import ReferencePool

    space, workload, calibration = (
        load_space("hydra-24"),
        load_workload("azure-conversation"),
        load_calibration("default"),
    )
    model = workload.models[0]
    points = list(space.points())[4800 : 4800 + 96]
    designs = [place_design(space.build(point), model, 0)[0] for point in points]
    sequences = np.arange(1.0, 33.0)
    batch = Batch(decode_sequences=sequences, decode_context_tokens=1200 * sequences, emitted_tokens=sequences)
    profile = build_profile(designs, model, calibration)
    fast = cpu_seconds(lambda: profile.pools["decode"].time_s(batch)) / (96 * 32)
    pools = [ReferencePool(design, model, calibration, "decode") for design in designs[:4]]
    ones = [
        Batch(decode_sequences=float(b), decode_context_tokens=1200.0 * b, emitted_tokens=float(b))
        for b in (1, 8, 16, 32)
    ]
    slow = cpu_seconds(lambda: [pool.time_s(one) for pool in pools for one in ones]) / 16
    return {"profile_iterations_per_s": compared(1 / fast, "iterations/s", 1 / slow)}


def estimator_speed() -> dict[str, Figure]:
    """Batches of 512 distinct designs by arrivals and serving, beside plain loops; placement, scaling, memory."""
    from benchmarks.speed import table

    return {
        name: Figure(value, unit) if reference is None else compared(value, unit, reference)
        for name, (value, unit, reference) in table().items()
    }


def simulator_speed() -> dict[str, Figure]:
    """Requests of Azure conversation per CPU second, one design, without the saturation run."""
    from hydra_dse.design.evaluator import EvaluationOptions
    from hydra_dse.placement import place_design
    from hydra_dse.studies import find_simulator

    space, workload, calibration = (
        load_space("hydra-24"),
        load_workload("azure-conversation"),
        load_calibration("default"),
    )
    point = {"hbm": 4, "Ap": 3, "Ad": 1, "Mp": 11, "link_gb_per_s": 256, "max_batch": 64}
    completed = space.complete(point)
    if completed is None:
        raise SystemExit("the benchmark's design is not in hydra-24")
    design = place_design(space.build(completed), workload.models[0], 0)[0]
    options = EvaluationOptions(requests=2000, replications=1, saturate=False)
    engine = find_simulator("serving")
    seconds = cpu_seconds(lambda: engine.evaluate([design], workload, calibration, options, 0), 2)
    return {"simulated_requests_per_cpu_s": Figure(2000 / seconds, "requests/s")}


def operator_level() -> dict[str, Figure]:
    """Iteration compositions of a 52-block model executed operator by operator, and with identical blocks once."""
    from hydra_dse.mapping import map_design
    from hydra_dse.model import block_operators
    from hydra_dse.placement import place_design
    from simulators.iteration import Attended, Composition
    from simulators.noi.flows import FlowNetwork
    from simulators.package import PlacedHardware
    from simulators.package.alone import run_alone
    from simulators.package.program import PoolProgram
    from simulators.package.reuse import BlockReuse

    space, calibration = load_space("hydra-24"), load_calibration("default")
    model = load_workload("azure-conversation").models[0]
    completed = space.complete({"hbm": 12, "Ap": 3, "Ad": 3, "Mp": 3, "link_gb_per_s": 384, "max_batch": 16})
    if completed is None:
        raise SystemExit("the benchmark's design is not in hydra-24")
    design = place_design(space.build(completed), model, 0)[0]
    hardware = PlacedHardware(design, map_design(design, model), calibration, model.precision)
    pool = PoolProgram(hardware, "decode", block_operators(model), FlowNetwork())
    batches = [Composition(0, 0, 16, 16, Attended(16 * (1000 + n), 0.0, 0, 16)) for n in range(20)]
    every = cpu_seconds(lambda: [run_alone(pool.network, pool.program(batch)) for batch in batches])
    once = cpu_seconds(lambda: [run_alone(pool.network, pool.program(batch), BlockReuse()) for batch in batches])
    return {
        "operator_level_compositions_per_cpu_s": Figure(20 / every, "compositions/s"),
        "operator_level_identical_blocks_once_per_cpu_s": compared(20 / once, "compositions/s", 20 / every),
    }


def serving_speed() -> dict[str, Figure]:
    """Iterations and requests per CPU second at the request level, beside a naive model of an event per token."""
    from benchmarks.serving_speed import table

    return {
        name: Figure(value, unit) if reference is None else compared(value, unit, reference)
        for name, (value, unit, reference) in table().items()
    }


def search_quality(workers: int = 2) -> dict[str, Figure]:
    """hydra-24 enumerated, and the share of its front's hypervolume that a search finds with a tenth of its points."""
    from benchmarks.hydra24_exhaustive import shares
    from hydra_dse.studies.estimating import EstimatorOfFile
    from hydra_dse.studies.exhaustive import exhaustive

    experiment = load_experiment("quickstart")
    start = time.perf_counter()
    result = exhaustive(experiment, workers=workers, scorer=EstimatorOfFile("quickstart"))
    wall = time.perf_counter() - start
    mine, chance = (shares(experiment, result, sampler, 5)[:, 0] for sampler in ("nsga2", "random"))
    return {
        "hydra24_exhaustive_designs_per_s": Figure(len(result.designs) / wall, "designs/s"),
        "hydra24_exhaustive_wall": Figure(wall, "s"),
        "hydra24_front_size": Figure(float(len(result.front)), "designs"),
        "hydra24_hypervolume_share_worst_of_5": Figure(float(mine.min()), "1", float(chance.min())),
        "hydra24_hypervolume_share_mean_of_5": Figure(float(mine.mean()), "1", float(chance.mean())),
    }


def trace_metrics(mega_bytes: float = 500.0) -> dict[str, Figure]:
    """All metrics of a trace of 500 MB: rate beside that of `json.load`, and peak memory beside its bound."""
    import tempfile

    from benchmarks.traces import table

    with tempfile.TemporaryDirectory() as folder:
        return {
            name: Figure(value, unit) if reference is None else compared(value, unit, reference)
            for name, (value, unit, reference) in table(Path(folder), mega_bytes).items()
        }


SHORT: tuple[Callable[[], dict[str, Figure]], ...] = (
    start_up,
    profile_speed,
    estimator_speed,
    simulator_speed,
    operator_level,
    serving_speed,
    search_quality,
    trace_metrics,
)


def kills(times: int = 30) -> dict[str, Figure]:
    """Sweeps killed at random moments and resumed: how many end with the bytes of an undisturbed one."""
    import signal
    import tempfile

    from hydra_dse.rng import derive

    experiment = load_experiment("quickstart")
    trials = min(experiment.search.trials, 600)
    rng = derive(0, "kills")
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable,
            "-m",
            "hydra_dse",
            "sweep",
            "quickstart",
            "--trials",
            str(trials),
            "--quiet",
            "--out",
        ]
        start = time.perf_counter()
        subprocess.run([*command, f"{folder}/whole"], check=True, capture_output=True)
        seconds = time.perf_counter() - start
        whole = Path(f"{folder}/whole/pareto.csv").read_bytes()
        same = 0
        for number in range(times):
            out = f"{folder}/{number}"
            process = subprocess.Popen([*command, out], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(float(rng.uniform(0.1, seconds)))
            process.send_signal(signal.SIGKILL)
            process.wait()
            subprocess.run([*command, out, "--resume"], check=True, capture_output=True)
            same += Path(out, "pareto.csv").read_bytes() == whole
    return {"resumed_sweeps_identical": compared(float(same), "sweeps", float(times))}


def simulator_memory(requests: int = 1_000_000) -> dict[str, Figure]:
    """Peak memory of a million requests of 1,024 in and 256 out, records and iterations written to Parquet."""
    from benchmarks.memory import peak

    megabytes, seconds = peak(requests)
    return {"simulated_million_peak": Figure(megabytes, "MB"), "simulated_million_cpu": Figure(seconds, "s")}


def damaged_files(mutants: int = 10_000) -> dict[str, Figure]:
    """Damaged input files through the command line: how many end with an exit code of ours, and their memory."""
    from benchmarks.fuzz import campaign

    found = campaign(mutants)
    return {
        "damaged_files_told": compared(float(found.done - found.failures), "files", float(found.done)),
        "damaged_files_memory_growth": Figure(found.grown / 1e6, "MB"),
    }


LONG: tuple[Callable[[], dict[str, Figure]], ...] = (kills, damaged_files, simulator_memory)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--long", action="store_true", help="the benchmarks that take longer than ten minutes")
    parser.add_argument("--only", metavar="NAME", help="one benchmark function")
    parser.add_argument("--out", type=Path, default=Path("bench.json"))
    arguments = parser.parse_args()
    chosen = [each for each in (LONG if arguments.long else SHORT) if arguments.only in (None, each.__name__)]
    figures: dict[str, Figure] = {}
    for benchmark in chosen:
        print(f"{benchmark.__name__} …", flush=True)
        for name, figure in benchmark().items():
            figures[name] = figure
            ratio = "" if figure.ratio is None else f"   {figure.ratio:.3g} × the reference"
            print(f"  {name:45s} {figure.value:12.4g} {figure.unit}{ratio}", flush=True)
    arguments.out.write_text(json.dumps({name: asdict(figure) for name, figure in figures.items()}, indent=2) + "\n")


if __name__ == "__main__":
    main()
