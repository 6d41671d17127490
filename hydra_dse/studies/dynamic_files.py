"""Files of a study of task maps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hydra_dse.studies.dynamic_course import COURSE
from hydra_dse.studies.dynamic_simulation import METRICS
from hydra_dse.studies.files import csv_bytes
from hydra_dse.studies.interrupts import uninterrupted
from hydra_dse.studies.run_directory import RunDirectory

if TYPE_CHECKING:
    from hydra_dse.studies.dynamic import DynamicResult

DYNAMIC, GAINS, PHASES = "dynamic.csv", "dynamic_gains.csv", "dynamic_phases.csv"


def write_dynamic(run: RunDirectory, result: DynamicResult) -> None:
    """`dynamic.csv`: service by load and map; `dynamic_gains.csv`: every map against the first.

    `dynamic_phases.csv`: service and queues over the cycle.
    """
    phases = max((len(row.recovery_s) for row in result.rows), default=0)
    columns = ["design", "share_of_max_rate", "rate_requests_per_s", "load", "cycle_s", "task_map"]
    columns += [f"{name}{end}" for name in METRICS for end in ("", ":low", ":high")]
    columns += [f"recovery_s_phase_{number}" for number in range(1, phases + 1)]
    rows = [
        [result.design, row.share, row.rate_per_s, row.load.name, row.load.cycle_s, row.task_map,
         *(value for name in METRICS for value in row.values[name]),
         *(row.recovery_s or (None,) * phases)]
        for row in result.rows
    ]  # fmt: skip
    heads = ["share_of_max_rate", "load", "cycle_s", "task_map", "than"]
    heads += [f"attainment_gain{end}" for end in ("", ":low", ":high")]
    heads += [f"ttft_p99_ratio{end}" for end in ("", ":low", ":high")] + ["verdict"]
    gains = [
        [gain.share, gain.load.name, gain.load.cycle_s, gain.task_map, result.settings.task_maps[0],
         *gain.attainment, *gain.p99_ratio, gain.verdict]
        for gain in result.gains
    ]  # fmt: skip
    over = ["share_of_max_rate", "load", "cycle_s", "task_map", "phase", "part", "from_s", "until_s", "requests"]
    over += ["slo_attainment", "ttft_mean_s", *COURSE]
    course = [
        [row.share, row.load.name, row.load.cycle_s, row.task_map, row.phase, row.part, row.start_s, row.end_s,
         row.requests, row.attainment, row.ttft_s, *(row.course[name] for name in COURSE)]
        for row in result.course
    ]  # fmt: skip
    with uninterrupted():
        run.write(DYNAMIC, csv_bytes(columns, rows))
        run.write(GAINS, csv_bytes(heads, gains))
        run.write(PHASES, csv_bytes(over, course))
