"""Published runs of other simulators, served again by the request level with their own step times.

Two kinds are known.  One states its step times in closed form (a prefill step by tokens and squared lengths, a decode
step by contexts and sequences), so that a replay isolates the scheduler.  The other logs the duration of every
iteration in order, so that batches and tokens of each can be compared.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import simpy
from numpy.typing import NDArray

from hydra_dse.errors import InputError
from hydra_dse.policy import Policy
from hydra_dse.records import RecordSink
from hydra_dse.workload.nouns import Requests
from simulators.iteration import Composition, FixedCost, Work
from simulators.serving.engine import Engine, Plan
from simulators.serving.memory import CacheShape
from simulators.serving.planners import PrefillFirstPlanner
from simulators.serving.recorder import Visits
from simulators.serving.replay import check_fits
from simulators.serving.server import Server
from simulators.serving.system import System

FloatArray = NDArray[np.float64]

_AMPLE_BYTES = 1e15
"""Memory that no log fills, where it names none."""


@dataclass(frozen=True)
class Blocks:
    """Cache of an engine in KV blocks.

    Attributes:
        count: blocks in all.
        tokens: of a block.
        watermark: share of the blocks, rounded down to whole ones, that admissions leave free.
    """

    count: int
    tokens: int = 16
    watermark: float = 0.01

    def shape(self) -> CacheShape:
        """The cache at one byte a token; half a block of slack keeps whole blocks apart from rounding."""
        kept = math.floor(self.watermark * self.count)
        share = max(0.0, kept - 0.5) / self.count
        return CacheShape(float(self.count * self.tokens), 1.0, 0.0, self.tokens, share)


@dataclass(frozen=True)
class DecodeForm:
    """Time of decode steps with at least `from_batch` sequences, in s.

    Attributes:
        per_context_token: per token of context before the step, over all sequences.
    """

    from_batch: int
    constant: float
    per_context_token: float
    per_sequence: float


@dataclass(frozen=True)
class StepForms:
    """Closed forms of step times, in s.

    Attributes:
        prefill: constant, per prompt token, per squared prompt length.
        decode: forms by ascending `from_batch`, the first from 0 or 1.
    """

    prefill: tuple[float, float, float]
    decode: tuple[DecodeForm, ...]

    def step_s(self, batch: Composition) -> float:
        """Time of an iteration of whole prompts, or of a decode step."""
        if batch.prefill_tokens:
            constant, per_token, per_square = self.prefill
            # Pairs of a whole prompt are half its squared length.
            return constant + per_token * batch.prefill_tokens + per_square * 2.0 * batch.attended.prefill_pairs
        sequences = batch.decode_sequences
        form = next(form for form in reversed(self.decode) if sequences >= form.from_batch or form is self.decode[0])
        context = batch.attended.decode_tokens - sequences  # ours count the token of the step itself
        return form.constant + form.per_context_token * context + form.per_sequence * sequences


class _JoinsAfterPrefill(PrefillFirstPlanner):
    """Prefill first; an arrival shortly after the end of a prefill step joins the next batch."""

    def __init__(self, grace_s: float) -> None:
        self._grace_s = grace_s
        self._prefilled = False

    def plan(self, engine: Engine) -> Plan | None:
        """Wait for the next arrival after a prefill step, if it comes in time."""
        server = engine.server
        if self._prefilled and server.next_arrival_s - server.env.now <= self._grace_s:
            self._prefilled = False
            return None
        plan = super().plan(engine)
        self._prefilled = plan is not None and bool(plan.chunks)
        return plan


def replay_forms(
    requests: Requests,
    forms: StepForms,
    cache_tokens: int,
    max_batch: int,
    grace_s: float = 0.0,
    block_tokens: int = 16,
    sink: RecordSink | None = None,
    prefill_tokens: int | None = None,
) -> Visits:
    """Serve requests prefill first, whole prompts batched together and never mixed with decode.

    Args:
        requests: in order of arrival.
        forms: step times.
        cache_tokens: most tokens in the cache.
        max_batch: most sequences.
        grace_s: an arrival up to this long after the end of a prefill step joins the next batch.
        block_tokens: of the cache.
        sink: where records go.
        prefill_tokens: most tokens of a prefill step of several prompts; None: as many as the cache holds.

    Raises:
        InputError: a request larger than the cache.
    """
    cache = CacheShape(float(cache_tokens), 1.0, 0.0, block_tokens=block_tokens, watermark=0.0)
    policy = Policy(
        serving="colocated",
        batching="prefill_first",
        max_batch=max_batch,
        token_budget=prefill_tokens or cache_tokens,
        memory_watermark=0.0,
    )
    check_fits(requests, cache)
    env = simpy.Environment()
    server = Server(env, System(policy, cache, {"serve": FixedCost(forms.step_s)}), requests, sink)
    if grace_s > 0.0:
        server.engines[0].planner = _JoinsAfterPrefill(grace_s)
    env.run()
    server.check_empty()
    return server.recorder.visits()


class _Logged(FixedCost):
    """Durations in the order of a log; keeps what was asked for."""

    def __init__(self, durations_s: FloatArray) -> None:
        known = durations_s.tolist()
        super().__init__(lambda _: known[min(self.iterations, len(known) - 1)])
        self.batches: list[Composition] = []

    def count(self, work: Work) -> None:
        super().count(work)
        self.batches.append(work.batch)


@dataclass(frozen=True)
class LoggedReplay:
    """What the scheduler did with the logged durations.

    Attributes:
        batches: of the iterations, in order.
        visits: dates of the requests.
    """

    batches: tuple[Composition, ...]
    visits: Visits

    @property
    def tokens(self) -> NDArray[np.int64]:
        """Tokens of each iteration."""
        return np.array([batch.prefill_tokens + batch.decode_sequences for batch in self.batches], dtype=np.int64)

    @property
    def sequences(self) -> NDArray[np.int64]:
        """Sequences of each iteration, decoding or prefilling."""
        return np.array([batch.prefill_sequences + batch.decode_sequences for batch in self.batches], dtype=np.int64)

    @property
    def chunks(self) -> NDArray[np.int64]:
        """Prompts with a chunk in each iteration."""
        return np.array([batch.prefill_sequences for batch in self.batches], dtype=np.int64)


def replay_durations(
    requests: Requests, durations_s: FloatArray, max_batch: int, token_budget: int, blocks: Blocks | None = None
) -> LoggedReplay:
    """Serve requests with chunked prefill, the n-th iteration taking the n-th duration.

    Args:
        requests: in order of arrival.
        durations_s: of the logged iterations, shape (iterations,).
        max_batch: most sequences.
        token_budget: most tokens of an iteration.
        blocks: of the cache; None where memory never ran out.

    Raises:
        InputError: no durations, a request larger than the cache.
    """
    if not len(durations_s):
        raise InputError("a log of iterations needs at least one")
    cost = _Logged(np.asarray(durations_s, dtype=np.float64))
    cache = CacheShape(_AMPLE_BYTES, 1.0, 1.0) if blocks is None else blocks.shape()
    policy = Policy(
        serving="colocated",
        batching="chunked",
        max_batch=max_batch,
        token_budget=token_budget,
        block_tokens=cache.block_tokens,
    )
    check_fits(requests, cache)
    env = simpy.Environment()
    server = Server(env, System(policy, cache, {"serve": cost}), requests, fast=False)
    env.run()
    server.check_empty()
    return LoggedReplay(tuple(cost.batches), server.recorder.visits())
