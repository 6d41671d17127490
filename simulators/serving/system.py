"""What a simulation serves requests with: its policy, memory, and the costs of iterations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import simpy

from hydra_dse.policy import Policy
from simulators.iteration import IterationCost, Work
from simulators.noi import Processor
from simulators.package.program import PoolProgram
from simulators.serving.memory import CacheShape
from simulators.serving.roles import Roles
from simulators.serving.waiting import ClassRules


@dataclass(frozen=True)
class System:
    """What is simulated: how requests are batched, and the hardware as seen by the request level.

    Attributes:
        costs: iteration cost by pool name: `"serve"`, or `"prefill"` and `"decode"`.
        handoff: returns the transfer that moves a request of so many prompt tokens between the pools;
            None where the hand-off is a pointer.
        source: memory in which prompts are computed, where the prefill pool has one of its own; a request is then
            moved to `cache` as soon as that has room for it, and holds the source until the transfer has ended.
        classes: priority and TTFT bound by class index of the requests.
        roles: role states of an elastic system.
        swapped: costs of prompts on the decode dies and of decode steps on the prefill dies, where pools take each
            other's work.
        processor: makes what executes iterations; None for the fair sharing of whole iterations.
        leaps: whether durations of iterations alone are those of the costs, so that decode steps may be leaped over.
        seed: of the tokens that decode steps emit, where these are drawn.
        programs: makes the operators of the iterations of a pool, for traces.
        handoff_latency_s: from the last byte of a transfer sent to its arrival.
    """

    policy: Policy
    cache: CacheShape
    costs: dict[str, IterationCost]
    handoff: Callable[[int], Work] | None = None
    source: CacheShape | None = None
    classes: tuple[ClassRules, ...] = ()
    roles: Roles | None = None
    swapped: dict[str, IterationCost] = field(default_factory=dict)
    processor: Callable[[simpy.Environment], Processor] | None = None
    leaps: bool = True
    seed: int = 0
    programs: Mapping[str, Callable[[], PoolProgram]] = field(default_factory=dict)
    handoff_latency_s: float = 0.0
