"""What commands on one design under one workload share: their options, and how an evaluation is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from hydra_dse.design.nouns import Design
    from hydra_dse.estimator.explain import Explanation
    from hydra_dse.results import Evaluation
    from hydra_dse.workload.nouns import Workload

workload_option = click.option(
    "--workload",
    metavar="WORKLOAD",
    help="A workload file or a bundled name (`hydra-dse list workloads`).  [default of a design of a run: the run's]",
)
model_option = click.option("--model", metavar="CONFIG", help="Model to serve instead of the workload's own.")
calibration_option = click.option(
    "--calibration",
    metavar="NAME_OR_FILE",
    help="Efficiencies of the dies.  [default: default, for a design of a run: the run's]",
)


def load_told(
    design: str, workload: str | None, model: str | None, overrides: tuple[str, ...]
) -> tuple[Design, Workload]:
    """Load a design and a workload (see `studies.pairs`); keys without effect are told on standard error.

    Raises:
        InputError: a fault of an input.
    """
    from hydra_dse.studies.pairs import load_pair

    pair = load_pair(design, workload, model, overrides)
    tell_unused(*pair)
    return pair


def tell_unused(design: Design, workload: Workload) -> None:
    """Tell keys without effect on standard error."""
    from hydra_dse.config.unused import without_effect

    for line in without_effect(design, workload):
        click.echo(f"note: {line}", err=True)


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
