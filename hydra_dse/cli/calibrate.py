"""`hydra-dse calibrate PROFILE... --out CALIBRATION.yaml`."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.argument("profiles", nargs=-1, required=True, metavar="PROFILE...")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Calibration file to write.")
@click.option("--chip", metavar="NAME", help="Chip that CSV profiles were measured on, where they do not say.")
@click.option("--bootstrap", "draws", type=click.IntRange(0, 10_000), default=100, show_default=True,
              help="Bootstrap samples of the 90 % intervals.")  # fmt: skip
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of the bootstrap.")
@click.option("--plots", type=click.Path(file_okay=False, path_type=Path), help="Folder for residual plots (PNG).")
def calibrate(
    profiles: tuple[str, ...], out: Path | None, chip: str | None, draws: int, seed: int, plots: Path | None
) -> None:
    """Fit physical parameters of chips to measured PROFILEs.

    A PROFILE is a CSV of kernel latencies, of a serving or training sweep, a YAML of measured tables, or the name of
    tables that ship with the project (b200, gc200, h100, sn30, sn40l, wse-2).
    """
    from hydra_dse.calibration.fitting import fit
    from hydra_dse.calibration.readers import profile_path, read_profile
    from hydra_dse.calibration.records import fits_yaml
    from hydra_dse.cli.calibrate_tables import print_fits

    paths = [profile_path(name) for name in profiles]
    fits = [fit(rows, draws=draws, seed=seed) for path in paths for rows in read_profile(path, chip)]
    print_fits(fits)
    if out is not None:
        out.write_text(fits_yaml(fits, paths, draws), encoding="utf-8")
        click.echo(f"wrote {out}")
    if plots is not None:
        from hydra_dse.calibration.plots import write_residual_plots

        for path in write_residual_plots(fits, plots):
            click.echo(f"wrote {path}")
