"""A pool that serves prompts and decodes: all that a solver needs of it and that does not depend on the rate."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from hydra_dse.estimator import full_pool
from hydra_dse.estimator.arrays import side_by_side
from hydra_dse.estimator.colocated_saturation import Saturation, saturation_of
from hydra_dse.estimator.colocated_tables import Between, Tables, tables_of
from hydra_dse.estimator.lengths import LengthMoments
from hydra_dse.estimator.prompt_impact import Impact, impact_of
from hydra_dse.estimator.solution import Intake
from hydra_dse.profile.nouns import ServiceProfile

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class ColocatedPool:
    """Pools of one policy, each of `n` designs.

    Attributes:
        profile: iteration times and memory; lengths: of the requests.
        tables: what was asked of the profile.
        impact: of prompts on the decoders at the nodes of the chain.
        saturation: when a prompt waits for every slot.
    """

    profile: ServiceProfile
    lengths: LengthMoments
    tables: Tables
    impact: Impact
    saturation: Saturation

    @property
    def intake(self) -> Intake:
        """Prompts with nothing to decode, sequences in service, and none between prompt and decode."""
        limit = self.tables.limit
        return Intake(self.tables.prompts.prompts_per_s(self.lengths), limit, np.zeros_like(limit))

    @classmethod
    def of(cls, profile: ServiceProfile, lengths: LengthMoments) -> Self:
        """Evaluate the profile."""
        tables = tables_of(profile, lengths)
        impact = impact_of(tables, tables.nodes.batch, lengths)
        return cls(profile, lengths, tables, impact, saturation_of(tables, lengths))

    @property
    def saturation_per_s(self) -> FloatArray:
        """Requests per second at most."""
        return self.saturation.rate_per_s

    def met(self, served: FloatArray) -> FloatArray:
        """Prompts per second that delay one decoder at each node, (n, k)."""
        return full_pool.met(served, self.impact.alone_s, self.tables.nodes.batch, self.tables.limit)

    def beside(self, weight: FloatArray) -> FloatArray:
        """Weights of node 0 and the nodes, (n, k + 1), on the j batches beside which prompts are timed."""
        return self._between.project(weight, self.tables.beside.shape[1])

    @cached_property
    def _between(self) -> Between:
        """Where node 0 and the nodes lie among the j batches."""
        nodes = self.tables.nodes
        return self.tables.beside_of(side_by_side(np.zeros((len(nodes.batch), 1)), nodes.batch))

    @property
    def work_scv(self) -> FloatArray:
        """Squared coefficient of variation of what a sequence takes of the pool: iterations, or memory × time."""
        lengths, memory = self.lengths, self.tables.memory.binds(self.profile.max_batch)
        return np.asarray((1.0 - memory) * lengths.decode_scv + memory * lengths.work_scv)

    def spread(self, dispersion: FloatArray) -> FloatArray:
        """Variance of the batch over its mean under arrivals of an index of dispersion, (n,)."""
        return np.asarray(np.maximum(1.0 + (dispersion - 1.0) * self.lengths.overlap, 0.1))

    def at_batch(self, values: FloatArray, batch: FloatArray) -> FloatArray:
        """Values at the nodes, (n, k), at one batch of each design, (n,)."""
        return self.tables.nodes.at_each(values, batch)
