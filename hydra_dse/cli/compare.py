"""`hydra-dse compare EXPERIMENT`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hydra_dse.cli.options import cluster_option, finite, json_option, set_option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hydra_dse.studies.comparison import ComparisonResult
    from hydra_dse.studies.comparison.ratios import Ratio
    from hydra_dse.studies.comparison.table import Compared

_SHOWN = ("arithmetic mean", "geometric mean", "median", "min", "max", "share below 1")


@click.command()
@click.argument("experiment")
@click.option("--out", type=click.Path(path_type=Path), help="Run directory [default: runs/<name>].")
@click.option("--workers", type=click.IntRange(1, 4096), help="Processes [default: one per core].")
@click.option("--resume", is_flag=True, help="Go on with an unfinished run; finished tasks are not done again.")
@click.option("--quick", is_flag=True, help="The file's quick variant: few cases, designs and requests.")
@click.option("--simulator", default="serving", show_default=True, help="Name in the group hydra_dse.simulators.")
@cluster_option
@click.option("--quiet", is_flag=True, help="No progress.")
@set_option
@json_option
def compare(
    experiment: str,
    out: Path | None,
    workers: int | None,
    resume: bool,
    quick: bool,
    simulator: str,
    cluster: str | None,
    quiet: bool,
    overrides: tuple[str, ...],
    as_json: bool,
) -> None:
    """Set the contenders of EXPERIMENT (a file with a section `compare`) side by side in simulation, at equal work."""
    from hydra_dse.cli.progress import StudyBar
    from hydra_dse.studies.comparison import compare as run_comparison
    from hydra_dse.studies.executor import available_cores

    with StudyBar("compare", "cases", quiet or as_json) as bar:
        result = run_comparison(
            experiment, out, overrides=overrides, quick=quick, workers=workers or available_cores(), resume=resume,
            progress=bar, command=["hydra-dse", *sys.argv[1:]], simulator=simulator, cluster=cluster,
        )  # fmt: skip
    if as_json:
        _print_json(result)
    else:
        _print_tables(result)


def _print_json(result: ComparisonResult) -> None:
    from hydra_dse.cli.options import print_json

    rows = [
        {
            "model": row.model, "workload": row.workload, "objective": row.aim, "contender": row.measured.contender,
            "design": row.measured.choice.identity, "parameters": dict(row.measured.choice.point),
            "feasible": not row.measured.violations, "violations": list(row.measured.violations),
            "metrics": {name: finite(value) for name, (value, _) in row.rates.items()}
            | {"power_w": finite(row.power_w), "area_mm2": finite(row.area_mm2)},
            "intervals": {
                name: [finite(max(0.0, value - half)), finite(value + half)]
                for name, (value, half) in row.rates.items()
            },
            "node_nm": finite(row.measured.node_nm), "iso_node_mm2": finite(row.measured.iso_node_mm2),
            "unit_cost_usd": finite(row.measured.unit_cost_usd),
            "ratios": {name: _ratio_json(ratio) for name, ratio in row.ratios.items()},
            "saturated_fractions": list(row.saturated),
        }
        for row in result.rows
    ]  # fmt: skip
    summary = [
        {name: finite(value) if isinstance(value, float) else value for name, value in vars(row).items()}
        for row in result.summary
    ]
    print_json(
        {
            "run": str(result.run_dir), "reference": result.comparison.reference, "cases": rows, "summary": summary,
            "notes": list(result.notes),
        }
    )  # fmt: skip


def _ratio_json(ratio: Ratio) -> dict[str, float | None]:
    return {name: finite(value) for name, value in vars(ratio).items()}


def _print_tables(result: ComparisonResult) -> None:
    from hydra_dse.cli.tables import console, print_table

    primary = f"{result.comparison.primary:g}"
    heads = (
        "model", "workload", "objective", "contender", "saturation\n[tokens/s]", "max rate\n[req/s]",
        f"power at {primary}\n[W]", "silicon\n[mm²]", "node\n[nm]", "cost\n[USD]", "saturation\nratio",
        "max rate\nratio", f"TTFT ratio at {primary}\nof reference",
    )  # fmt: skip
    print_table(f"Contenders side by side: {result.run_dir}", heads, [_line(row, primary) for row in result.rows], 4)
    wanted = ("saturation", "max_rate", f"ttft_at_{primary}_of_reference", f"ttft_at_{primary}_of_own")
    if len(result.comparison.loads) * len(result.comparison.aims) > 1:
        _print_summary(result, wanted)
    else:
        _print_case(result, wanted)
    violated = [row for row in result.rows if row.measured.violations]
    for row in violated:
        name = row.measured.contender
        console().print(f"{row.model}, {row.workload}: {name} cannot serve: {'; '.join(row.measured.violations)}")
    for note in result.notes:
        console().print(f"note: {note}")
    console().print(f"files: {result.run_dir}/compare.csv, points.csv, summary.csv")


def _print_case(result: ComparisonResult, wanted: Sequence[str]) -> None:
    """Ratios of a single case: over cases there is nothing to tell, over replications there is."""
    from hydra_dse.cli.tables import print_table
    from hydra_dse.results.text import span

    reference = result.comparison.reference
    rows = [
        (
            row.measured.contender,
            name,
            f"{row.ratios[name].value:.3f}",
            span(row.ratios[name].low, row.ratios[name].high),
        )
        for row in result.rows
        if row.measured.contender != reference
        for name in wanted
        if name in row.ratios
    ]
    title = f"Ratios to {reference} in the only case, 95 % intervals over replications"
    print_table(title, ("contender", "ratio", "value", "95 % CI"), rows, 2)


def _print_summary(result: ComparisonResult, wanted: Sequence[str]) -> None:
    """Statistics of ratios over cases."""
    from hydra_dse.cli.tables import print_table

    rows = [
        (one.contender, one.ratio, one.statistic, f"{one.value:.3f}", f"{one.low:.3f}–{one.high:.3f}", f"{one.cases}",
         f"{one.missing}")
        for one in result.summary
        if one.ratio in wanted and one.statistic in _SHOWN
    ]  # fmt: skip
    title = f"Ratios to {result.comparison.reference} over cases, 95 % bootstrap intervals"
    print_table(title, ("contender", "ratio", "statistic", "value", "95 % CI", "cases", "without"), rows, 3)


def _line(row: Compared, primary: str) -> tuple[str, ...]:
    from hydra_dse.results.text import number

    rates = row.rates
    ratios = [row.ratios[name] for name in ("saturation", "max_rate", f"ttft_at_{primary}_of_reference")]
    return (
        row.model, row.workload, row.aim, row.measured.contender, number(rates["saturation_tokens_per_s"][0]),
        number(rates["max_rate_requests_per_s"][0]), number(row.power_w), number(row.area_mm2),
        number(row.measured.node_nm), number(row.measured.unit_cost_usd), *(f"{ratio.value:.2f}" for ratio in ratios),
    )  # fmt: skip
