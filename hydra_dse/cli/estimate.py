"""`hydra-dse estimate`: one design under one workload through the estimator."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from hydra_dse.cli.evaluated import calibration_option, load_told, model_option, show, workload_option
from hydra_dse.cli.options import json_option, set_option

if TYPE_CHECKING:
    from hydra_dse.workload.nouns import Workload


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
    workload: str | None,
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
    loaded, served = load_told(design, workload, model, overrides)
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


def _models(workload: Workload) -> str:
    from hydra_dse.workload import served

    return ", ".join(kind.model.name for kind in served(workload))
