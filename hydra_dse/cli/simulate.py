"""`hydra-dse simulate`: one design under one workload through a simulator."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hydra_dse.cli.evaluated import calibration_option, model_option, show, tell_unused, workload_option
from hydra_dse.cli.options import bundle_options, json_option, set_option

if TYPE_CHECKING:
    from hydra_dse.records import RecordSink
    from hydra_dse.studies.design_simulation import DesignSimulation


@click.command()
@click.argument("design")
@workload_option
@model_option
@calibration_option
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
    from hydra_dse.errors import Fault, InputError
    from hydra_dse.studies.bundles import TraceOptions, simulate_into, told
    from hydra_dse.studies.design_simulation import DesignSimulation
    from hydra_dse.studies.run_references import calibration_for

    run = DesignSimulation(
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
        *_target_of(target_ci, target_metrics),
        warmup_share,
    )
    tell_unused(*run.pair)
    if bundle is None:
        _no_trace_options()
        with _records(records, run) as sink:
            evaluation = run.evaluate(sink)
    else:
        if records is not None:
            raise InputError(Fault("cannot be written beside a bundle: run it twice", file="--records"))
        evaluation = simulate_into(run, Path(bundle), TraceOptions(trace_window, trace_limit, compress))
    show(evaluation, run.title, run.provenance(), as_json, components=components)
    if records is not None and not evaluation.feasible:
        click.echo(f"note: nothing was simulated, so {records} has no records", err=True)
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


def _records(folder: Path | None, run: DesignSimulation) -> contextlib.AbstractContextManager[RecordSink | None]:
    """Where records go: to Parquet files, or nowhere; nothing is written of a design that has no place."""
    if folder is None or run.placed[1]:
        return contextlib.nullcontext()
    from hydra_dse.studies.records import ParquetRecords

    return ParquetRecords(folder, [kind.name for kind in run.pair[1].classes], run.provenance())


def _target_of(text: str | None, names: tuple[str, ...]) -> tuple[float | None, tuple[str, ...]]:
    """The target of `--target-ci` and `--target-metric`.

    Raises:
        InputError: not a share between 0 and 1, an unknown metric, or metrics without a share.
    """
    from hydra_dse.errors import Fault, InputError, UnitError
    from hydra_dse.results import metric
    from hydra_dse.units import parse

    for name in names:
        try:
            metric(name)
        except InputError as error:
            raise InputError([replace(fault, file="--target-metric") for fault in error.faults]) from error
    if text is None:
        if names:
            raise InputError(Fault("give --target-ci as well, e.g. --target-ci '5 %'", "--target-metric"))
        return None, ()
    try:
        share = parse(text, "share")
    except UnitError as error:
        raise InputError(Fault(str(error), "--target-ci")) from error
    if not 0.0 < share < 1.0:
        raise InputError(Fault(f"must lie between 0 and 1 (0 and 100 %), got {text}", "--target-ci"))
    return share, names
