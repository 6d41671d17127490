"""What a fitted workload loses against the record it was fitted to: Azure conversation and code on placed designs.

Each design serves the first requests of the record as they came (in faster or slower time), then as many drawn from
the fitted arrivals and lengths at the same rate; beside them the estimate of the fitted workload.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

import numpy as np

from benchmarks.validation import placed
from benchmarks.validation.designs import PARAMETERS, random_points
from benchmarks.validation.placed import PlacedCase
from benchmarks.validation.simulate import measured
from benchmarks.validation.store import RESULTS, append_row
from hydra_dse.estimator import estimate_designs
from hydra_dse.rng import derive
from hydra_dse.workload import Renewal
from hydra_dse.workload.nouns import Requests, Workload

SEED = 5_2028
MODEL = "nemotron-h-8b"
LOAD = 0.6
REQUESTS = 4_000
RECORDS = {
    "azure-conversation": "AzureLLMInferenceTrace_conv_2023.csv",
    "azure-code": "AzureLLMInferenceTrace_code_2023.csv",
}
SHOWN = ("ttft_mean_s", "ttft_p90_s", "tpot_mean_s", "e2e_mean_s")
COLUMNS = ("design", "policy", "workload", "requests", "rate_per_s", "kind", *SHOWN)
LEAST_BATCH = 16


@dataclass(frozen=True)
class Given:
    """Times that are scaled to a rate; what a record and a draw have in common."""

    requests: Requests

    def at(self, rate_per_s: float) -> Requests:
        """The requests in faster or slower time, their mean rate as asked."""
        times = self.requests.arrival_s - self.requests.arrival_s[0]
        return replace(self.requests, arrival_s=times * ((len(times) - 1) / times[-1] / rate_per_s))


def path(folder: Path = RESULTS) -> Path:
    """The file of all runs."""
    return folder / "replays.csv"


def recorded(workload: str, count: int = REQUESTS) -> Given:
    """The first requests of a record."""
    folder = Path(os.environ.get("HYDRA_DSE_REFERENCE", "reference")) / "traces"
    with (folder / RECORDS[workload]).open(newline="") as file:
        rows = [row for row, _ in zip(csv.DictReader(file), range(count), strict=False)]
    dates = [datetime.fromisoformat(row["TIMESTAMP"][:26]).timestamp() for row in rows]
    lengths = [np.array([int(row[name]) for row in rows]) for name in ("ContextTokens", "GeneratedTokens")]
    return Given(Requests(np.array(dates), *lengths, np.zeros(len(rows), dtype=np.int64)))


def drawn(workload: Workload, count: int = REQUESTS) -> Given:
    """Requests of the fitted arrivals and lengths."""
    rng = derive(SEED, "drawn", workload.name)
    prompt, output = workload.classes[0].lengths.sample(count, rng)
    return Given(Requests(workload.arrivals.sample(count, rng), prompt, output, np.zeros(count, dtype=np.int64)))


def cases() -> Iterator[PlacedCase]:
    """One design for each kind of serving, under each workload."""
    points = [point for point in random_points(200, SEED, "replays") if point["max_batch"] >= LEAST_BATCH]
    for number, (serving, batching) in enumerate(placed.SERVING):
        named = tuple((name, float(points[number][name])) for name in PARAMETERS)
        for workload in RECORDS:
            yield PlacedCase(f"replay-{number}", MODEL, workload, named, serving, batching, Renewal(1.0), LOAD)


def estimated(case: PlacedCase, rate_per_s: float) -> dict[str, float]:
    """The fitted workload at a rate."""
    workload = placed.workload_of(case.workload, case.model)
    workload = replace(workload, arrivals=workload.arrivals.with_rate(rate_per_s))  # type: ignore[attr-defined]
    table = estimate_designs([placed.design_of(case)[0]], workload, placed.calibration())
    return {name: float(values[0]) for name, values in table.metrics.items()}


def rate_of(case: PlacedCase) -> float:
    """The load of the estimated saturation rate, which arrivals do not move."""
    return LOAD * estimated(case, 1e-3)["saturation_requests_per_s"]


def run(folder: Path = RESULTS) -> None:
    """Simulate what is missing."""
    done = {(row["design"], row["workload"], row["kind"]) for row in _rows(folder)}
    for case in cases():
        rate = rate_of(case)
        for kind in ("replayed", "fitted"):
            if (case.name, case.workload, kind) in done:
                continue
            workload = placed.workload_of(case.workload, case.model)
            requests = (recorded(case.workload) if kind == "replayed" else drawn(workload)).at(rate)
            found = measured(requests, placed.serve_placed(case, requests, case.scheduling))
            _append(case, rate, kind, found, folder)


def _rows(folder: Path) -> list[dict[str, str]]:
    if not path(folder).exists():
        return []
    with path(folder).open(newline="") as file:
        return [row for row in csv.DictReader(file) if int(row["requests"]) == REQUESTS]


def _append(case: PlacedCase, rate: float, kind: str, found: dict[str, float], folder: Path) -> None:
    values = [f"{found[name]:.6g}" for name in SHOWN]
    append_row(path(folder), COLUMNS, [case.name, case.policy, case.workload, REQUESTS, f"{rate:.6g}", kind, *values])


def replay_section(folder: Path = RESULTS) -> str:
    """The part of the page, empty where nothing is stored."""
    rows = _rows(folder)
    if not rows:
        return ""
    lines = [
        "## Replayed records against fitted workloads",
        "",
        f"{MODEL} on random designs of hydra-24 at {LOAD:g} of the estimated saturation rate: the first",
        f"{REQUESTS:,} requests of the Azure records in faster or slower time, as many drawn from the fitted arrivals",
        "and lengths, and the estimate of the fitted workload.  One run each, without intervals: a single sample, of",
        "gaps with a CV of 13 in the code record.  The first requests of the conversation record have outputs of 254",
        "tokens in the mean, all of it (to which the lengths were fitted) 211.",
        "`benchmarks.validation replays` adds runs.",
        "",
        "| policy | workload | requests/s | source | TTFT mean, s | TTFT p90, s | TPOT mean, ms | E2E mean, s |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for case in cases():
        mine = [row for row in rows if (row["design"], row["workload"]) == (case.name, case.workload)]
        sources = [(row["kind"], {name: float(row[name]) for name in SHOWN}) for row in mine]
        if mine:
            rate = float(mine[0]["rate_per_s"])
            sources.append(("estimated, fitted", estimated(case, rate)))
        for kind, values in sources:
            ttft, p90, tpot, e2e = (values[name] for name in SHOWN)
            head = f"| {case.policy} | {case.workload} | {rate:.2f} | {kind} "
            lines.append(f"{head}| {ttft:.3g} | {p90:.3g} | {1e3 * tpot:.3g} | {e2e:.3g} |")
    return "\n".join([*lines, ""])
