"""A design that keeps recurrent state in fewer than 32 bits, beside itself with fp32 state.

Accuracy is never predicted; what the narrower state gains is shown against the format that serving kernels keep.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hydra_dse.cli.tables import heading, print_table
from hydra_dse.results.text import number

if TYPE_CHECKING:
    from hydra_dse.design.nouns import Design
    from hydra_dse.hardware.calibration import CalibrationSet
    from hydra_dse.results import Evaluation
    from hydra_dse.workload.nouns import Workload

SHOWN = (
    "saturation_tokens_per_s", "throughput_tokens_per_s", "ttft_mean_s", "tpot_mean_s", "energy_j_per_token",
    "power_w",
)  # fmt: skip


def with_fp32_state(design: Design, workload: Workload, calibration: CalibrationSet) -> Evaluation | None:
    """Estimate the same design with fp32 state; None where it has that, or the models have no state."""
    from hydra_dse.estimator import evaluate
    from hydra_dse.mapping import operands_of
    from hydra_dse.workload import served

    precision = design.precision
    if precision is None or precision.state == "fp32":
        return None
    models = [kind.model for kind in served(workload)]
    if not any(operands_of(model, precision).state_bytes_per_sequence > 0 for model in models):
        return None
    twin = replace(design, precision=replace(precision, state="fp32"))
    return evaluate([twin], workload, calibration, temperature=True)[0]


def print_beside(evaluation: Evaluation, twin: Evaluation, state: str) -> None:
    """Print both in one table, and that accuracy is not predicted."""
    names = [name for name in SHOWN if name in evaluation.metrics or name in twin.metrics]
    rows = [
        (label, *(number(found.metrics.get(name)) for name in names))
        for label, found in ((f"state in {state}", evaluation), ("state in fp32", twin))
    ]
    print_table("Precision of the state (accuracy is not predicted)", ("", *(heading(name) for name in names)), rows)
