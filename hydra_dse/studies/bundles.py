"""Bundles from the command line: a simulation that leaves its traces, and bundles read back as simulations."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra_dse.studies.design_simulation import DesignSimulation

if TYPE_CHECKING:
    from hydra_dse.results import Evaluation
    from hydra_dse.workload.nouns import Workload


@dataclass(frozen=True)
class TraceOptions:
    """What the traces of a bundle show, as the command line states it."""

    window: str = "8"
    limit: str = "32 MB"
    compress: bool = False

    def words(self) -> tuple[str, ...]:
        """The options as words of a command."""
        limit = () if self.limit == TraceOptions.limit else ("--trace-limit", self.limit)
        return ("--trace-window", self.window, *limit, *(("--gzip",) if self.compress else ()))

    def most_bytes(self) -> float:
        """The limit in bytes.

        Raises:
            InputError: it is no size.
        """
        from hydra_dse.errors import Fault, InputError, UnitError
        from hydra_dse.units import parse

        try:
            return parse(self.limit, "bytes")
        except UnitError as error:
            raise InputError(Fault(str(error), "--trace-limit")) from error


def simulate_into(run: DesignSimulation, folder: Path, traces: TraceOptions) -> Evaluation:
    """Run a simulation and write its bundle.

    An infeasible design leaves card, script and metrics, but no traces; so does a task map that moves dies.

    Raises:
        InputError: a fault of an input, a bad window, or a folder that holds something else.
    """
    from hydra_dse.bundle.writing import BundleWriter, Recipe, RecordsOnly, card_of, parse_window
    from hydra_dse.results.plain import evaluation_json

    window, most_bytes = parse_window(traces.window), traces.most_bytes()
    (placed, _), workload = run.placed, run.pair[1]
    settings = {**run.settings(), "trace_window": traces.window, "trace_limit": traces.limit}
    recipe = Recipe((*run.command(), *traces.words()), _inputs(run), settings)
    card = card_of(placed, workload, run.rates, _about(run))
    writer = BundleWriter(folder, card, recipe, window, traces.compress, most_bytes)
    moving = placed.policy.task_map != "static"
    evaluation = run.evaluate(RecordsOnly(writer.sink) if moving else writer.sink)
    missing = ""
    if not evaluation.feasible:
        missing = "the design is infeasible"
    elif moving:
        missing = (
            f"task_map: {placed.policy.task_map} moves dies between pools, and a trace gives every engine its dies"
        )
    writer.finish(evaluation_json(evaluation, run.provenance()), missing)
    return evaluation


def told(folder: Path) -> str:
    """Where a bundle lies and how large it is, for people; its traces may have been cut."""
    from hydra_dse.bundle.conventions import BLOCK
    from hydra_dse.config.loader import load_yaml
    from hydra_dse.units import format as as_text

    block: Any = load_yaml(folder / f"{folder.resolve().name}.yaml").data[BLOCK]
    files = [folder / trace["file"] for trace in block["traces"]]
    if not files:
        return f"bundle: {folder}, without traces: {block['traces_missing']}"
    size = as_text(float(sum(file.stat().st_size for file in files)), "bytes", 3)
    window = block.get("window")
    if window is None:
        return f"bundle: {folder}, without iterations: none began in the time of --trace-window"
    cut = "; the window closed at --trace-limit" if window["cut"] else ""
    return f"bundle: {folder}, {window['iterations']} iterations in {len(files)} traces of {size}{cut}"


def _about(run: DesignSimulation) -> dict[str, object]:
    from hydra_dse import __version__

    about: dict[str, object] = {"simulator": f"{run.simulator} of hydra_dse {__version__}", "seed": run.seed}
    lost = _not_exported(run.pair[1])
    return {**about, "arrivals_lack": lost} if lost else about


def _not_exported(workload: Workload) -> list[str]:
    """What a table of arrivals and lengths does not say of the requests of a workload."""
    found = []
    if workload.has_prefixes:
        found.append("shared prefixes")
    if workload.has_sessions or (workload.replay is not None and workload.replay.parent is not None):
        found.append("sessions")
    if any(shift.rate_factor != 1.0 for shift in workload.shifts):
        found.append("shifts of the rate (set workload.shifts=[] to replay)")
    return found


def _inputs(run: DesignSimulation) -> dict[str, str]:
    """Files that are read and their digests; what is bundled goes with the version."""
    from hydra_dse.bundle.writing import sha256
    from hydra_dse.studies.named_files import files_read
    from hydra_dse.studies.run_directory import EXPERIMENT
    from hydra_dse.studies.run_references import run_and_identity

    of_run = run_and_identity(run.design)
    experiment = None if of_run is None else str(Path(of_run[0]) / EXPERIMENT)
    files = files_read((run.design, run.workload, run.model, run.calibration, experiment), run.overrides)
    return {str(file): sha256(file) for file in files}


def _moved(run: dict[str, Any], bundle: Path) -> tuple[dict[str, Any], Path | None, Path]:
    """The settings of a bundle in a run directory that was moved, with the old and the new place of that; else None."""
    from hydra_dse.studies.run_directory import EXPERIMENT

    above = bundle.resolve().parent.parent
    old, colon, identity = str(run["design"]).rpartition(":")
    if not colon or not old or Path(old).exists() or not (above / EXPERIMENT).is_file():
        return run, None, above
    return {**run, "design": f"{above}:{identity}"}, Path(old), above


def simulation_of(block: dict[str, Any], file: str) -> DesignSimulation:
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
    inputs = block.get("inputs") or ()
    if not isinstance(inputs, (list, tuple)) or not all(isinstance(item, dict) and "file" in item for item in inputs):
        raise InputError(Fault("x_chiplet.inputs is no list of files with digests", file=file))
    run, old, new = _moved(run, Path(file))
    for item in inputs:
        path = Path(str(item["file"]))
        if old is not None and path.is_relative_to(old):
            path = new / path.relative_to(old)
        if not path.is_file():
            raise InputError(Fault(f"input {path} of the bundle is gone", file=file))
        if sha256(path) != item.get("sha256"):
            raise InputError(Fault(f"input {path} has changed since the bundle was written", file=file))
    known = {name: run[name] for name in DesignSimulation.__dataclass_fields__ if name in run}
    for name in ("overrides", "target_metrics"):
        known[name] = tuple(str(each) for each in known.get(name) or ())
    return DesignSimulation(**known)
