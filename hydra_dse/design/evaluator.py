"""The protocol that joins evaluators: our simulators and anyone else's take the same path.

A minimal simulator is a class with one method `evaluate`; it is found through the entry-point group
`hydra_dse.simulators`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from hydra_dse.design.nouns import Design
from hydra_dse.hardware.calibration import CalibrationSet
from hydra_dse.records.nouns import RecordSink
from hydra_dse.results.nouns import Evaluation
from hydra_dse.workload.nouns import Workload

DETAILS = ("ledger", "memo", "operators")


@dataclass(frozen=True)
class EvaluationOptions:
    """How long and how often to run.

    Attributes:
        requests: requests per replication, warm-up included.
        replications: independent runs; replication `r` uses the same random numbers for every design.
        warmup_share: share of requests cut at the start of a run.
        rate_per_s: replaces the workload's mean rate; None = the workload's own.
        saturate: offer all requests at once to measure the saturation rate as well.
        detail: where iteration times come from: `"ledger"` (closed form of bytes and FLOPs per operator), `"memo"`
            (execution operator by operator, once per rounded composition), `"operators"` (every iteration executed
            operator by operator; for short windows).
        target_ci: go on with more replications until the half-width of the interval of every metric in
            `target_metrics` is at most this share of its value; None = as many as stated.
        most_requests: of all replications together, where a target is set.
        window_share: where the first window of a replayed record begins, as a share of the record, 0 to below 1; the
            windows of further replications follow evenly.  (A record has no other randomness for a seed to change.)
    """

    requests: int = 2000
    replications: int = 3
    warmup_share: float = 0.1
    rate_per_s: float | None = None
    saturate: bool = True
    detail: str = "ledger"
    target_ci: float | None = None
    target_metrics: tuple[str, ...] = ("ttft_mean_s", "tpot_mean_s")
    most_requests: int = 1_000_000
    window_share: float = 0.0


class Evaluator(Protocol):
    """Evaluates placed designs under a workload."""

    def evaluate(
        self,
        designs: Sequence[Design],
        workload: Workload,
        calibration: CalibrationSet,
        options: EvaluationOptions,
        seed: int,
        sink: RecordSink | None = None,
    ) -> list[Evaluation]:
        """Return one evaluation per design, in order.  Byte-reproducible from `seed`."""
