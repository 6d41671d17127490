"""Whether a policy and a workload go together: orders and their bounds, reuse and several models."""

from __future__ import annotations

from hydra_dse.errors import InputError
from hydra_dse.policy import Policy
from hydra_dse.workload.by_model import served
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


def check_reuse(policy: Policy, workload: Workload) -> None:
    """Check that what several models leave out is not asked for: sessions, and prefix caches with something in them.

    Raises:
        InputError: it is.
    """
    kinds = served(workload)
    if len(kinds) == 1:
        return
    names = ", ".join(kind.model.name for kind in kinds)
    if workload.has_sessions:
        raise InputError(
            f"workload {workload.name!r} mixes the models {names} and has "
            "sessions of several turns, which are modelled for one model only; "
            "give each model a workload of its own, or drop the sessions"
        )
    if policy.prefix_cache and workload.has_prefixes:
        raise InputError(
            f"policy.prefix_cache: the models {names} of workload {workload.name!r} share a memory, and "
            "prefix caches are modelled for one model only; "
            "use prefix_cache: false, or give each model a workload of its own"
        )
