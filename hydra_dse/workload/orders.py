"""Whether a workload states what an order of waiting requests needs."""

from __future__ import annotations

from hydra_dse.errors import InputError
from hydra_dse.policy import Policy
from hydra_dse.workload.nouns import Workload

BY_DEADLINE = ("edf", "least_slack")


def check_order(policy: Policy, workload: Workload) -> None:
    """Check that an order by deadline finds deadlines.

    Raises:
        InputError: no class has a TTFT bound.
    """
    if policy.scheduling in BY_DEADLINE and all(kind.slo.ttft_s is None for kind in workload.classes):
        raise InputError(
            f"policy.scheduling: {policy.scheduling!r} orders requests by their TTFT bound, and no class of workload "
            f"{workload.name!r} has one; state `slo: {{ttft: …}}`, or choose fcfs, sjf or hrrn"
        )
