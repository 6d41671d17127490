"""The protocol of a solver, and which one a serving policy asks for."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from hydra_dse.errors import InputError
from hydra_dse.estimator.colocated import Colocated
from hydra_dse.estimator.disaggregated import Disaggregated
from hydra_dse.estimator.elastic import Elastic
from hydra_dse.estimator.lengths import LengthMoments
from hydra_dse.estimator.outputs import limits_waiting
from hydra_dse.estimator.phases import Phases
from hydra_dse.estimator.refusing import ColocatedRoom, DisaggregatedRoom
from hydra_dse.estimator.solution import Intake, Solution
from hydra_dse.estimator.static import Static
from hydra_dse.estimator.static_pools import StaticPools
from hydra_dse.estimator.transient import Transient
from hydra_dse.policy import ONE_TOKEN
from hydra_dse.profile.nouns import ServiceProfile

FloatArray = NDArray[np.float64]


class Solver(Protocol):
    """Designs of one serving policy, ready to be solved at any rate."""

    @property
    def saturation_per_s(self) -> FloatArray:
        """Highest sustainable rate, shape (n,)."""

    @property
    def intake(self) -> Intake:
        """How requests leave a backlog."""

    def at(
        self,
        rate: FloatArray,
        arrival_scv: float,
        percentiles: bool,
        transient: Transient | None = None,
        phases: Phases | None = None,
    ) -> Solution:
        """Solve at arrival rates of shape (n,); in a piece of time, at the rates that are served in it.

        Args:
            rate: requests per second, shape (n,); beyond saturation just below it.
            arrival_scv: squared coefficient of variation of the gaps between arrivals.
            percentiles: also the distributions of the latencies.
            transient: the piece of time, with what came before it; None = the stationary state.
            phases: of the arrivals; None = they come alike at all times.
        """


def solver_of(profile: ServiceProfile, lengths: LengthMoments) -> Solver:
    """The solver of the profile's serving policy.

    Raises:
        InputError: a policy that is not estimated.
    """
    if profile.task_map == "fcfs":
        raise InputError(
            "task_map: 'fcfs' has no estimate, because both pools serve both phases; simulate it, or choose static, "
            "stealing or elastic"
        )
    if profile.roles is not None and limits_waiting(profile).any():
        raise InputError(
            "max_waiting: refusals with task_map 'elastic' have no estimate; simulate them, or leave it out"
        )
    if profile.emission != ONE_TOKEN:
        _check_steps(profile)
    with np.errstate(all="ignore"):
        if profile.roles is not None:
            return Elastic.of(profile, lengths)
        if profile.max_waiting is not None and profile.batching != "static":
            apart = profile.serving == "disaggregated"
            return (DisaggregatedRoom if apart else ColocatedRoom).limited(profile, lengths)
        if profile.serving == "disaggregated":
            closed = profile.batching == "static"
            return StaticPools.of(profile, lengths) if closed else Disaggregated.of(profile, lengths)
        return Static.of(profile, lengths) if profile.batching == "static" else Colocated.of(profile, lengths)


def _check_steps(profile: ServiceProfile) -> None:
    """Steps of several tokens are estimated in open batches of pools whose dies stay."""
    for key, value, others in (("batching", profile.batching, "static"), ("task_map", profile.task_map, "elastic")):
        if value == others:
            raise InputError(
                f"tokens_per_step: steps of several tokens with {key} {value!r} have no estimate; simulate them, or "
                "leave it out"
            )
