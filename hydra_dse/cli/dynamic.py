"""The study of task maps under shifting loads on the screen: `hydra-dse robustness` of an experiment with `dynamic`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hydra_dse.cli.options import finite

if TYPE_CHECKING:
    from hydra_dse.design.experiment import Experiment
    from hydra_dse.studies.dynamic import DynamicResult
    from hydra_dse.studies.dynamic_tables import Gain, MapRow


def compare_maps(
    experiment: Experiment,
    directory: Path,
    workers: int,
    command: Sequence[str],
    cluster: str | None,
    *,
    resume: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Run the study and print its tables."""
    from hydra_dse.cli.progress import StudyBar
    from hydra_dse.studies.dynamic import dynamic

    with StudyBar(f"task maps {experiment.name}", "runs", quiet or as_json) as bar:
        result = dynamic(
            experiment, directory, workers=workers, resume=resume, progress=bar, command=command, cluster=cluster
        )
    if as_json:
        _print_json(result)
    else:
        _print_tables(result)


def _print_json(result: DynamicResult) -> None:
    from hydra_dse.cli.options import print_json
    from hydra_dse.studies.dynamic_tables import breakeven

    ends = {}
    for share in result.settings.loads:
        for task_map in result.settings.task_maps[1:]:
            shortest, longest = breakeven(result.gains, task_map, share)
            ends[f"{task_map}@{share:g}"] = {"pays_from_cycle_s": shortest, "not_at_cycle_s": longest}
    print_json(
        {
            "run": str(result.run_dir),
            "design": result.design,
            "parameters": dict(result.point),
            "max_rate_requests_per_s": finite(result.max_rate),
            "rows": [_row(row) for row in result.rows],
            "gains": [_gain(gain) for gain in result.gains],
            "breakeven": ends,
        }
    )


def _row(row: MapRow) -> dict[str, object]:
    return {
        "share_of_max_rate": row.share,
        "rate_requests_per_s": finite(row.rate_per_s),
        "load": row.load.name,
        "task_map": row.task_map,
        "metrics": {name: finite(value[0]) for name, value in row.values.items()},
        "intervals": {name: [finite(value[1]), finite(value[2])] for name, value in row.values.items()},
        "recovery_s": [finite(value) for value in row.recovery_s],
    }


def _gain(gain: Gain) -> dict[str, object]:
    return {
        "share_of_max_rate": gain.share,
        "load": gain.load.name,
        "task_map": gain.task_map,
        "attainment_gain": [finite(value) for value in gain.attainment],
        "ttft_p99_ratio": [finite(value) for value in gain.p99_ratio],
        "verdict": gain.verdict,
    }


def _print_tables(result: DynamicResult) -> None:
    from hydra_dse.cli.tables import console, print_table
    from hydra_dse.results.text import number
    from hydra_dse.studies.dynamic_tables import breakeven

    verdicts = {(gain.share, gain.load.name, gain.task_map): gain.verdict for gain in result.gains}
    rows = []
    for row in result.rows:
        back = ", ".join("never" if value != value else number(value) for value in row.recovery_s)
        verdict = verdicts.get((row.share, row.load.name, row.task_map), "")
        values = [row.values[name] for name in ("slo_attainment", "ttft_p99_s", "tpot_mean_s")]
        attained = f"{values[0][0]:.3f} ± {values[0][0] - values[0][1]:.3f}"
        cells = (attained, number(values[1][0]), number(values[2][0]), back, verdict)
        rows.append((f"{row.share:.0%}", row.load.name, row.task_map, *cells))
    columns = ("of max rate", "load", "task map", "SLO attainment", "TTFT p99 [s]", "TPOT mean [s]")
    than = f"than {result.settings.task_maps[0]}"
    print_table(f"Task maps on design {result.design}", (*columns, "recovery by phase [s]", than), rows)
    for share in result.settings.loads:
        for task_map in result.settings.task_maps[1:]:
            shortest, longest = breakeven(result.gains, task_map, share)
            pays = "pays at no cycle tried" if shortest is None else f"pays from cycles of {shortest:g} s on"
            if longest is not None and shortest is not None:
                pays += f", not shown at {longest:g} s"
            console().print(f"{task_map} at {share:.0%}: {pays}")
    console().print(f"highest rate of the mean mix: {number(result.max_rate)} req/s; run directory: {result.run_dir}")
