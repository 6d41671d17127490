"""The engines of a server: pools by policy, a planner for each, and what executes their iterations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simulators.noi import FluidProcessor, Processor, SoloProcessor
from simulators.serving.engine import Engine, EngineLimits
from simulators.serving.planners import Planner, planners_of
from simulators.serving.tasks import OldestFirst, PromptThief, StepThief

if TYPE_CHECKING:
    import simpy

    from hydra_dse.policy import Policy
    from simulators.serving.server import Server


def _planners(policy: Policy) -> dict[str, Planner]:
    """The planner of each pool."""
    if policy.task_map == "stealing":
        return {"prefill": StepThief(), "decode": PromptThief()}
    if policy.task_map == "fcfs":
        return {"prefill": OldestFirst(), "decode": OldestFirst()}
    return planners_of(policy)


def sharing(env: simpy.Environment, engines: list[Engine]) -> Processor:
    """What executes iterations where nothing else is asked for: one at a time alone, several in fair shares."""
    return SoloProcessor(env) if len(engines) == 1 else FluidProcessor(env)


def engines_of(server: Server) -> list[Engine]:
    """The engines of a policy: `batches_in_flight` per pool, each with its share of the batch and of the budget."""
    policy = server.policy
    pools = _planners(policy)
    count = policy.batches_in_flight
    limits = EngineLimits(max(1, policy.max_batch // count), max(1, policy.token_budget // count))
    engines = [
        Engine(server, pool, index, server.system.costs[pool], planner, limits)
        for pool, planner in pools.items()
        for index in range(count)
    ]
    for engine in engines:
        engine.costs = {**server.system.swapped, engine.pool: engine.cost}
    return engines
