"""What a reader must know of estimates where requests are served in another order than the estimator knows."""

from __future__ import annotations

from collections.abc import Sequence

from hydra_dse.policy import Policy
from hydra_dse.workload import check_order
from hydra_dse.workload.nouns import Workload

KNOWN = ("fcfs", "sjf")


def knows_room(policy: Policy) -> bool:
    """Whether a limit of waiting requests is part of the estimate."""
    if policy.task_map == "elastic":
        return False
    return policy.serving == "colocated" or policy.batching != "static"


def order_notes(policies: Sequence[Policy], workload: Workload) -> tuple[str, ...]:
    """Notes on orders and priorities that are estimated as first come, first served.

    Raises:
        InputError: an order by deadlines that the workload does not state.
    """
    for policy in dict.fromkeys(policies):
        check_order(policy, workload)
    notes = [
        f"scheduling {order!r} is estimated as first come, first served: the mean wait of all requests is close where "
        "prompts are alike, percentiles and single classes are not; simulate to know them"
        for order in dict.fromkeys(policy.scheduling for policy in policies)
        if order not in KNOWN
    ]
    if any(policy.batching == "static" and policy.scheduling == "sjf" for policy in policies):
        notes.append("static batches are estimated as first come, first served")
    if any(policy.batching == "static" and policy.task_map == "elastic" for policy in policies):
        notes.append(
            "static batches of elastic pools are estimated as continuous ones; simulate to know what they cost"
        )
    if any(policy.max_waiting is not None and not knows_room(policy) for policy in policies):
        notes.append(
            "max_waiting is not estimated: requests queue without limit; simulate to know how many are refused"
        )
    if len({kind.priority for kind in workload.classes}) > 1:
        notes.append(
            "classes of several priorities are estimated as one queue without priorities; simulate to know what each "
            "class waits"
        )
    if any(policy.class_preemption for policy in policies):
        notes.append("class_preemption is not estimated; simulate to know what it costs the lower classes")
    drawn = [policy for policy in policies if not policy.emission.single]
    several = len({kind.model_index for kind in workload.classes}) > 1
    if several and any(policy.prefix_cache for policy in policies):
        notes.append("prefix_cache has no effect: several models on a package share no cache of prefixes")
    if drawn and (several or (workload.has_prefixes and any(policy.prefix_cache for policy in drawn))):
        beside = "several models" if several else "a prefix cache"
        notes.append(f"tokens_per_step with {beside}: the estimate is not compared with simulations; simulate to check")
    return tuple(notes)
