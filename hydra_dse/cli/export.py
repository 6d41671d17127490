"""`hydra-dse export DESIGN --to FORMAT`."""

from __future__ import annotations

from pathlib import Path

import click

from hydra_dse.cli.evaluated import calibration_option, load_told, model_option, workload_option
from hydra_dse.cli.options import set_option


@click.command()
@click.argument("design")
@click.option(
    "--to", "form", required=True, type=click.Choice(["hotspot", "rapidchiplet", "booksim"]), help="The tool."
)
@click.option("--out", required=True, type=click.Path(), metavar="DIR", help="A new or empty directory.")
@workload_option
@model_option
@calibration_option
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of the placement.")
@set_option
def export(
    design: str,
    form: str,
    out: str,
    workload: str | None,
    model: str | None,
    calibration: str | None,
    seed: int,
    overrides: tuple[str, ...],
) -> None:
    """Write DESIGN (a YAML file, or RUN:ID) as inputs of another tool, with a script that runs it.

    Powers are those estimated under the workload; what the tool does otherwise stands in the README beside the files.
    """
    from hydra_dse.config import load_calibration
    from hydra_dse.interchange import FORMATS, layout_of, powers_of
    from hydra_dse.studies.files import empty_folder, write_atomically
    from hydra_dse.studies.run_references import calibration_for

    loaded, served = load_told(design, workload, model, overrides)
    watts, conditions = powers_of(loaded, served, load_calibration(calibration_for(design, calibration)))
    files = FORMATS[form](layout_of(loaded, served.models, seed, watts, conditions))
    folder = empty_folder(Path(out))
    for name, text in files.items():
        write_atomically(folder / name, text.encode())
        if name.endswith(".sh"):
            (folder / name).chmod(0o755)
    click.echo(f"{folder}: {', '.join(files)}")
