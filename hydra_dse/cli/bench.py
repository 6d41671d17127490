"""`hydra-dse bench tier1|tier2 PROFILE… | --chip NAME`, and `bench layouts FILE`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from hydra_dse.cli.options import json_option

if TYPE_CHECKING:
    from hydra_dse.bench.record import Profile
    from hydra_dse.bench.tier1 import Settings

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True)
class Inputs:
    """What `tier1` and `tier2` have in common."""

    files: tuple[str, ...]
    chip: str | None
    sweep: str | None
    phase: str
    calibration: str
    memory: str
    platform: str
    totals: tuple[str, ...]
    causal: bool
    recompute: bool
    out: str | None


def _inputs(command: Command) -> Command:
    """Options of both tiers."""
    options = (
        click.argument("profiles", nargs=-1, metavar="[PROFILE]..."),
        click.option("--chip", metavar="NAME", help="Model this die (library name or YAML file) in place of PROFILE."),
        click.option("--sweep", metavar="layers=…,hidden=…,batch=…,precision=…", help="Sizes to model, each a value or "
                     "several with / between, e.g. layers=1/12/24,hidden=1024,chips=1/2/4."),
        click.option("--phase", type=click.Choice(["training", "prefill", "decode"]), default="training",
                     show_default=True, help="What a modelled chip runs."),
        click.option("--calibration", default="fitted", show_default=True, metavar="fitted|NAME|FILE",
                     help="Calibration of a modelled chip; fitted: what is fitted to the chip itself, else measured."),
        click.option("--memory", default="hydra-hbm3", show_default=True, help="Stack of a die without memory."),
        click.option("--platform", default="", metavar="NAME", help="Chip of the profiles, in place of the reader's."),
        click.option("--total", "totals", multiple=True, metavar="RESOURCE=COUNT",
                     help="Denominator of an allocation ratio, e.g. pe=850000."),
        click.option("--causal", is_flag=True, help="Count the FLOPs of causal pairs only."),
        click.option("--recompute", is_flag=True, help="Training runs the forward pass twice (recomputation)."),
        click.option("--out", type=click.Path(), help="Write the normalised profiles as tidy .csv or .parquet."),
    )  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


@click.group()
def bench() -> None:
    """DABench-LLM metrics of measured profiles or of a modelled chip."""


@bench.command()
@_inputs
@click.option("--plot", type=click.Path(), help="Draw the roofline, every memory level, as .png or .svg.")
@json_option
def tier1(plot: str | None, as_json: bool, **given: Any) -> None:
    """Inside a chip: allocation, load imbalance, efficiency, memory levels, roofline, and what binds."""
    from hydra_dse.bench.tier1 import tier1_of
    from hydra_dse.cli.bench_tables import print_tier1, tier1_json
    from hydra_dse.cli.options import print_json

    inputs = _given(given)
    kind = _kind_of_plot(plot)
    settings = _settings(inputs)
    reports = [tier1_of(profile, settings) for profile in _profiles(inputs, settings)]
    if plot is not None:
        from hydra_dse.report.figures import image_bytes
        from hydra_dse.report.roofline import roofline_figure

        lines = [(report.profile.name, report.roofline) for report in reports if report.roofline is not None]
        _write(Path(plot), image_bytes(roofline_figure(lines), kind))
    if as_json:
        print_json(tier1_json(reports))
    else:
        print_tier1(reports)


@bench.command()
@_inputs
@json_option
def tier2(as_json: bool, **given: Any) -> None:
    """Across chips, and deployment: scaling, batch saturation, precision gain, failures."""
    from hydra_dse.bench.tier2 import tier2_of
    from hydra_dse.cli.bench_tables import print_basis, print_tier2, tier2_json
    from hydra_dse.cli.options import print_json

    inputs = _given(given)
    profiles = _profiles(inputs, _settings(inputs), tier=2)
    result = tier2_of(profiles)
    if as_json:
        basis = list(dict.fromkeys(profile.basis for profile in profiles if profile.basis))
        print_json({**tier2_json(result), "basis": basis})
    else:
        print_tier2(result)
        print_basis(profiles)


@bench.command()
@click.argument("file", type=click.Path())
@json_option
def layouts(file: str, as_json: bool) -> None:
    """Pipeline layouts of FILE that contradict themselves: entries against chips, layers against the model's."""
    from hydra_dse.bench.layouts import check_layouts
    from hydra_dse.bench.readers import read_profiles
    from hydra_dse.cli.options import print_json

    profiles = read_profiles(Path(file))
    found = check_layouts(profiles)
    checked = sum(bool(profile.layout) for profile in profiles)
    if as_json:
        rows = [{"name": each.name, "line": each.line, "reasons": list(each.reasons)} for each in found]
        print_json({"checked": checked, "contradictory": rows})
        return
    for each in found:
        click.echo(f"{file}:{each.line}: {each.name}: {'; '.join(each.reasons)}")
    click.echo(f"{checked} layouts checked, {len(found)} contradict themselves")


def _given(given: dict[str, Any]) -> Inputs:
    from hydra_dse.errors import InputError

    inputs = Inputs(files=given.pop("profiles"), **given)
    if bool(inputs.files) == (inputs.chip is not None):
        raise InputError("give PROFILE files or --chip NAME, one of the two")
    if inputs.sweep is not None and inputs.chip is None:
        raise InputError("--sweep goes with --chip NAME")
    return inputs


def _settings(inputs: Inputs) -> Settings:
    from hydra_dse.bench.flops import Counting
    from hydra_dse.bench.tier1 import Settings
    from hydra_dse.errors import InputError

    totals = {}
    for pair in inputs.totals:
        name, _, count = pair.partition("=")
        if not count.strip().isdigit() or int(count) == 0:
            raise InputError(f"--total {pair}: write RESOURCE=COUNT with a whole count above 0")
        totals[name.strip()] = float(count)
    return Settings(totals, Counting(inputs.causal, inputs.recompute), inputs.memory)


def _profiles(inputs: Inputs, settings: Settings, tier: int = 1) -> list[Profile]:
    if inputs.chip is not None:
        from hydra_dse.bench.sweep import modelled_profiles

        profiles = modelled_profiles(inputs.chip, inputs.sweep, inputs.phase, inputs.calibration, settings, tier)
    else:
        from hydra_dse.bench.merge import merged
        from hydra_dse.bench.readers import read_profiles

        profiles = merged(each for file in inputs.files for each in read_profiles(Path(file), inputs.platform))
    if inputs.out is not None:
        from hydra_dse.bench.readers.tidy import write_profiles

        write_profiles(profiles, Path(inputs.out))
    return profiles


def _kind_of_plot(plot: str | None) -> str:
    from hydra_dse.errors import InputError

    kind = Path(plot).suffix.removeprefix(".") if plot else "png"
    if kind not in ("png", "svg"):
        raise InputError(f"--plot {plot}: write a file that ends in .png or .svg")
    return kind


def _write(path: Path, data: bytes) -> None:
    path.write_bytes(data)
