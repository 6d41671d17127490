"""Bundles from the command line: a simulation that leaves its traces, and bundles read back as simulations."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra_dse.cli.simulation import Simulation

if TYPE_CHECKING:
    from hydra_dse.results import Evaluation


def simulate_into(run: Simulation, folder: Path, trace_window: str, compress: bool) -> Evaluation:
    """Run a simulation and write its bundle; an infeasible design leaves card, script and metrics, but no traces.

    Raises:
        InputError: a fault of an input, a bad window, or a folder that holds something else.
    """
    from hydra_dse.bundle.writing import BundleWriter, Recipe, card_of, parse_window
    from hydra_dse.cli.options import evaluation_json

    window = parse_window(trace_window)
    (placed, _), workload = run.placed, run.pair[1]
    command = (*run.command(), "--trace-window", trace_window, *(("--gzip",) if compress else ()))
    recipe = Recipe(command, _inputs(run), {**run.settings(), "trace_window": trace_window})
    card = card_of(placed, workload, run.rates, _about(run))
    writer = BundleWriter(folder, card, recipe, window, compress)
    evaluation = run.evaluate(writer.sink)
    writer.finish(evaluation_json(evaluation, run.provenance()))
    return evaluation


def _about(run: Simulation) -> dict[str, object]:
    from hydra_dse import __version__

    return {"simulator": f"{run.simulator} of hydra_dse {__version__}", "seed": run.seed}


def _inputs(run: Simulation) -> dict[str, str]:
    """Files named on the command line and their digests; what is bundled goes with the version."""
    from hydra_dse.bundle.writing import sha256

    found = {}
    for ref in (run.design, run.workload, run.model, run.calibration):
        if ref is not None and Path(ref).is_file():
            path = Path(ref).resolve()
            found[str(path)] = sha256(path)
    return found


def simulation_of(block: dict[str, Any], file: str) -> Simulation:
    """The simulation that wrote a bundle, from the block of its card.

    Raises:
        InputError: the card does not say, or an input has changed since.
    """
    from hydra_dse.bundle.writing import sha256
    from hydra_dse.errors import Fault, InputError

    run = block.get("run")
    if not isinstance(run, dict) or not {"design", "workload"} <= set(run):
        message = "x_chiplet.run does not say how the bundle was made; it was not written by hydra-dse simulate"
        raise InputError(Fault(message, file=file))
    for item in block.get("inputs") or ():
        path = Path(str(item["file"]))
        if not path.is_file():
            raise InputError(Fault(f"input {path} of the bundle is gone", file=file))
        if sha256(path) != item["sha256"]:
            raise InputError(Fault(f"input {path} has changed since the bundle was written", file=file))
    known = {name: run[name] for name in Simulation.__dataclass_fields__ if name in run}
    for name in ("overrides", "target_metrics"):
        known[name] = tuple(str(each) for each in known.get(name) or ())
    return Simulation(**known)
