"""Tables of fitted parameters and their errors."""

from __future__ import annotations

from collections.abc import Sequence

import click

from hydra_dse.calibration.nouns import Errors, Fit


def print_fits(fits: Sequence[Fit]) -> None:
    """Print each fit: parameters with intervals, errors fitted and held out, and what is not determined."""
    for fit in fits:
        rows = fit.observations
        count = int(rows.configurations().max()) + 1
        click.echo(f"{rows.chip.name} {rows.key}: {len(rows)} rows, {count} configurations ({rows.source})")
        for number, parameter in enumerate(rows.form.parameters):
            note = fit.undetermined.get(parameter.name)
            click.echo(
                f"  {parameter.name:<12} {fit.values[number]:>10.4g} [{fit.low[number]:.4g}, {fit.high[number]:.4g}]"
                f" {parameter.unit}" + (f"  not determined: {note}" if note else "")
            )
        click.echo(f"  errors, fitted            {_line(fit.errors)}")
        held = "the others do not determine the form" if fit.held_out is None else _line(fit.held_out)
        click.echo(f"  errors, configuration out {held}")


def _line(errors: Errors) -> str:
    return (
        f"median {errors.median:.1%}, mean {errors.mean:.1%}, p90 {errors.p90:.1%}, worst {errors.worst:.1%}, "
        f"signed median {errors.bias:+.1%}"
    )
