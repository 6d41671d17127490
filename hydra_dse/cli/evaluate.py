"""`hydra-dse estimate` and `hydra-dse simulate`: one design under one workload."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hydra_dse.cli.options import bundle_options, json_option, set_option

if TYPE_CHECKING:
    from hydra_dse.cli.simulation import Simulation
    from hydra_dse.config.overrides import Override
    from hydra_dse.design.nouns import Design
    from hydra_dse.estimator.explain import Explanation
    from hydra_dse.records import RecordSink
    from hydra_dse.results import Evaluation
    from hydra_dse.workload.nouns import Workload

workload_option = click.option(
    "--workload",
    required=True,
    metavar="WORKLOAD",
    help="A workload file or a bundled name (`hydra-dse list workloads`).",
)
model_option = click.option("--model", metavar="CONFIG", help="Model to serve instead of the workload's own.")
calibration_option = click.option(
    "--calibration",
    metavar="NAME_OR_FILE",
    help="Efficiencies of the dies.  [default: default, for a design of a run: the run's]",
)


def load_pair(
    design: str, workload: str | None, model: str | None, overrides: Sequence[str]
) -> tuple[Design, Workload]:
    """Load a design (a file, a bundled name, or RUN:ID) and a workload (None: that of the run).

    Keys without effect are told on standard error.

    Raises:
        InputError: a fault of an input, or an override that starts with neither `workload.` nor `design.`.
    """
    from hydra_dse.config import load_model, load_workload
    from hydra_dse.config.overrides import Override, parse_override, split_overrides
    from hydra_dse.errors import Fault, InputError

    for_workload, others = split_overrides([parse_override(text) for text in overrides], "workload")
    for_design, others = split_overrides(others, "design")
    if others:
        message = "must start with 'workload.' or 'design.', e.g. design.policy.max_batch=32"
        raise InputError([Fault(message, file=f"--set {override.name}") for override in others])
    if model is not None:
        load_model(model)
    if workload is None:
        from hydra_dse.studies.run_references import workload_of_run

        pair = _design(design, for_design), workload_of_run(design, model, for_workload)
    else:
        if model is not None:
            for_workload = (Override("model", ("model",), model), *for_workload)
        pair = _design(design, for_design), load_workload(workload, for_workload)
    from hydra_dse.config.unused import without_effect

    for line in without_effect(*pair):
        click.echo(f"note: {line}", err=True)
    return pair


def _design(ref: str, overrides: Sequence[Override]) -> Design:
    from hydra_dse.config import load_design
    from hydra_dse.errors import Fault, InputError
    from hydra_dse.studies.run_references import run_and_identity
    from hydra_dse.studies.runs import design_of_run

    of_run = run_and_identity(ref)
    if of_run is None:
        return load_design(ref, overrides)
    if overrides:
        message = f"cannot change {ref}, a design of a run; write the design to a file to change it"
        raise InputError([Fault(message, file=f"--set {override.name}") for override in overrides])
    return design_of_run(*of_run)


def _models(workload: Workload) -> str:
    from hydra_dse.workload import served

    return ", ".join(kind.model.name for kind in served(workload))


def show(
    evaluation: Evaluation,
    title: str,
    provenance: dict[str, object],
    as_json: bool,
    explanation: Explanation | None = None,
    components: bool = False,
    fp32_state: Evaluation | None = None,
) -> None:
    """Print an evaluation, and what explains it, as JSON or as tables."""
    if as_json:
        from hydra_dse.cli.options import evaluation_json, finite, print_json

        data = evaluation_json(evaluation, provenance)
        if fp32_state is not None:
            data["with_fp32_state"] = {name: finite(value) for name, value in fp32_state.metrics.items()}
        if explanation is not None:
            from hydra_dse.cli.explain_tables import explanation_json

            data["explanation"] = explanation_json(explanation)
        print_json(data)
        return
    from hydra_dse.cli.tables import print_evaluation

    print_evaluation(title, evaluation)
    if components and evaluation.components is not None:
        from hydra_dse.cli.tables import print_components

        print_components(evaluation.components)
    if explanation is not None:
        from hydra_dse.cli.explain_tables import print_explanation

        print_explanation(explanation)


@click.command()
@click.argument("design")
@workload_option
@model_option
@calibration_option
@click.option(
    "--explain",
    "explained",
    is_flag=True,
    help="Also where operators run, what fills the memory, which bytes move, and which resource binds.",
)
@click.option(
    "--max-rate", is_flag=True, help="Also the highest rate that meets the SLOs of the workload (takes longer)."
)
@click.option(
    "--draws",
    type=click.IntRange(0, 1000),
    default=0,
    help="Intervals from this many calibrations drawn from their intervals, instead of one relative error.",
)
@set_option
@json_option
def estimate(
    design: str,
    workload: str,
    model: str | None,
    calibration: str | None,
    explained: bool,
    max_rate: bool,
    draws: int,
    overrides: tuple[str, ...],
    as_json: bool,
) -> None:
    """Score DESIGN (a YAML file, or RUN:ID) with the Markov-chain estimator."""
    from hydra_dse.cli.basis_tables import basis_json, print_basis
    from hydra_dse.cli.fp32_state import print_beside, with_fp32_state
    from hydra_dse.config import load_calibration
    from hydra_dse.errors import Fault, InputError
    from hydra_dse.estimator import evaluate
    from hydra_dse.studies.run_references import calibration_for

    calibration = calibration_for(design, calibration)
    loaded, served = load_pair(design, workload, model, overrides)
    if max_rate and not served.promises:
        raise InputError(Fault(f"workload {served.name!r} states no SLO; add --set workload.slo.ttft=…", "--max-rate"))
    efficiencies, explanation = load_calibration(calibration), None
    if explained:
        from hydra_dse.estimator.explain import explain

        evaluation, explanation = explain(loaded, served, efficiencies)
    if max_rate or not explained:
        [evaluation] = evaluate([loaded], served, efficiencies, max_rate=max_rate, temperature=True)
    if draws:
        from hydra_dse.estimator.calibration_draws import posterior

        drawn = posterior([loaded], served, efficiencies, draws).table.evaluation(0)
        evaluation = replace(evaluation, intervals=drawn.intervals)
    provenance: dict[str, object] = {
        "design": design, "identity": loaded.identity, "workload": workload, "model": _models(served),
        "calibration": calibration, "overrides": list(overrides),
        "operators": basis_json(loaded, served, efficiencies),
    }  # fmt: skip
    twin = with_fp32_state(loaded, served, efficiencies)
    title = f"{loaded.name or design} under {served.name}"
    show(evaluation, title, provenance, as_json, explanation, fp32_state=twin)
    if not as_json:
        if twin is not None and loaded.precision is not None:
            print_beside(evaluation, twin, loaded.precision.state)
        print_basis(loaded, served, efficiencies)


@click.command()
@click.argument("design")
@click.option(
    "--workload",
    metavar="WORKLOAD",
    help="A workload file or a bundled name (`hydra-dse list workloads`).  [default of a design of a run: the run's]",
)
@model_option
@click.option(
    "--calibration",
    metavar="NAME_OR_FILE",
    help="Efficiencies of the dies.  [default: default, for a design of a run: the run's]",
)
@click.option(
    "--requests", type=click.IntRange(10, 10**7), default=2000, show_default=True, help="Requests per replication."
)
@click.option("--replications", type=click.IntRange(1, 1000), default=3, show_default=True, help="Independent runs.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of the requests.")
@click.option(
    "--detail",
    type=click.Choice(("ledger", "memo", "operators")),
    default="ledger",
    show_default=True,
    help="Iteration times: closed form, operator by operator through a memo, or every iteration (short runs).",
)
@click.option(
    "--warmup-share",
    type=click.FloatRange(0.0, 1.0, max_open=True),
    default=0.1,
    show_default=True,
    help="Share of the requests that only warm a run up.",
)
@click.option(
    "--target-ci",
    metavar="SHARE",
    help="Add replications until the 95 % interval of each target metric is within ± this share of it, e.g. '5 %'.",
)
@click.option(
    "--target-metric",
    "target_metrics",
    multiple=True,
    metavar="METRIC",
    help="What --target-ci is for; may be repeated.  [default: ttft_mean_s, tpot_mean_s]",
)
@click.option(
    "--components", is_flag=True, help="Also utilisation and power of every die, stack and link (always in --json)."
)
@click.option(
    "--records",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Write the first replication's requests and iterations to DIR as Parquet.",
)
@click.option("--simulator", default="serving", show_default=True, help="Name in the group hydra_dse.simulators.")
@bundle_options
@set_option
@json_option
def simulate(
    design: str,
    workload: str | None,
    model: str | None,
    calibration: str | None,
    requests: int,
    replications: int,
    seed: int,
    detail: str,
    warmup_share: float,
    target_ci: str | None,
    target_metrics: tuple[str, ...],
    components: bool,
    records: Path | None,
    simulator: str,
    bundle: str | None,
    trace_window: str,
    trace_limit: str,
    compress: bool,
    overrides: tuple[str, ...],
    as_json: bool,
) -> None:
    """Run DESIGN (a YAML file, or RUN:ID) through the discrete-event simulator."""
    from hydra_dse.cli.bundles import TraceOptions, simulate_into, told
    from hydra_dse.cli.simulation import Simulation, target_of
    from hydra_dse.errors import Fault, InputError
    from hydra_dse.studies.run_references import calibration_for

    run = Simulation(
        design,
        workload,
        model,
        calibration_for(design, calibration),
        requests,
        replications,
        seed,
        detail,
        simulator,
        overrides,
        *target_of(target_ci, target_metrics),
        warmup_share,
    )
    if bundle is None:
        _no_trace_options()
        with _records(records, run) as sink:
            evaluation = run.evaluate(sink)
    else:
        if records is not None:
            raise InputError(Fault("cannot be written beside a bundle: run it twice", file="--records"))
        evaluation = simulate_into(run, Path(bundle), TraceOptions(trace_window, trace_limit, compress))
    show(evaluation, run.title, run.provenance(), as_json, components=components)
    if bundle is not None and not as_json:
        click.echo(told(Path(bundle)))


def _no_trace_options() -> None:
    """Refuse options of traces where no bundle is written.

    Raises:
        InputError: one of them is given.
    """
    from hydra_dse.errors import Fault, InputError

    context = click.get_current_context()
    for name, flag in (("trace_window", "--trace-window"), ("trace_limit", "--trace-limit"), ("compress", "--gzip")):
        if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            raise InputError(Fault("says how a bundle is written; give --bundle DIR as well", file=flag))


def _records(folder: Path | None, run: Simulation) -> contextlib.AbstractContextManager[RecordSink | None]:
    """Where records go: to Parquet files, or nowhere; nothing is written of a design that has no place."""
    if folder is None or run.placed[1]:
        return contextlib.nullcontext()
    from hydra_dse.studies.records import ParquetRecords

    return ParquetRecords(folder, [kind.name for kind in run.pair[1].classes], run.provenance())
