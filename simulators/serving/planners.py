"""Batching policies: what the next iteration of an engine consists of.

A planner decides; it admits prompts (they get their memory at once) and makes room for decode steps.
"""

from __future__ import annotations

from typing import Protocol

from hydra_dse.policy import Policy
from simulators.serving.engine import Chunks, Engine, Plan

UNBOUNDED = 1 << 62
"""Tokens: no budget of a run is as large."""


class Planner(Protocol):
    """One method: the next iteration, or None while the engine has nothing to do."""

    def plan(self, engine: Engine) -> Plan | None:
        """Plan the next iteration of `engine`, which is between iterations."""


class ChunkedPlanner:
    """Sarathi, vLLM v1: a step of every decoding sequence, the rest of the budget to prompts in chunks."""

    def plan(self, engine: Engine) -> Plan | None:
        """Decoders first, then prompts under way, then new ones while slots and memory last."""
        decoding = engine.decoding
        engine.server.preemption.make_way(engine, engine.limits.max_batch, decoding.blocks_due)
        before = engine.server.preemptions
        if decoding and not engine.server.preemption.make_room(engine):
            return None
        left = engine.limits.token_budget - len(decoding) * engine.positions
        chunks = _continue_prompts(engine, left)
        preempted = engine.server.preemptions > before
        if not preempted:
            left -= sum(tokens for _, tokens in chunks)
            _admit_chunks(engine, chunks, left, engine.limits.max_batch, reserved=decoding.blocks_due)
        if not decoding and not chunks:
            return None
        return Plan(bool(decoding), chunks, steady=not chunks and not preempted)


class PrefillFirstPlanner:
    """vLLM v0: while prompts can start, iterations of whole prompts only; decode steps otherwise."""

    def plan(self, engine: Engine) -> Plan | None:
        """Batch waiting prompts up to the budget (a longer one runs alone), else advance the decoders."""
        engine.server.preemption.make_way(engine, engine.limits.max_batch)
        chunks = _admit_whole(engine, _continue_prompts(engine, UNBOUNDED))
        return Plan(False, chunks) if chunks else _decode_step(engine)


class PrefillPlanner:
    """The prefill pool of a disaggregated server: prompts in chunks up to the budget, paused by back-pressure."""

    def plan(self, engine: Engine) -> Plan | None:
        """Prompts under way first, then new ones while memory lasts."""
        if engine.server.decode_queue.pushed_back:
            return None
        engine.server.preemption.make_way(engine, UNBOUNDED)
        chunks = _continue_prompts(engine, engine.limits.token_budget)
        left = engine.limits.token_budget - sum(tokens for _, tokens in chunks)
        _admit_chunks(engine, chunks, left, UNBOUNDED, reserved=0)
        return Plan(False, chunks) if chunks else None


class DecodePlanner:
    """The decode pool of a disaggregated server: takes handed-over sequences, advances all of them."""

    def plan(self, engine: Engine) -> Plan | None:
        """Fill free slots from the hand-off queue, then advance."""
        return _take_and_step(engine, closed=False)


class StaticPlanner:
    """Closed batches: an idle engine takes who waits, computes all prompts, then decodes until the last one ends.

    It starts with whoever waits, however few.  A member that ends earlier leaves at once with its memory and is
    no longer computed, but nobody takes its slot.
    """

    def plan(self, engine: Engine) -> Plan | None:
        """Form a batch where there is none; its prompts in chunks of the budget; then decode steps."""
        server = engine.server
        if not engine.in_service:
            while server.waiting and engine.in_service < engine.limits.max_batch and server.can_admit(0):
                server.admit(engine)
        chunks = _continue_prompts(engine, engine.limits.token_budget)
        return Plan(False, chunks) if chunks else _decode_step(engine)


class StaticDecodePlanner:
    """The decode pool of a disaggregated server in closed batches: takes who was handed over when it is empty."""

    def plan(self, engine: Engine) -> Plan | None:
        """Form a batch where there is none, else advance the one that runs."""
        return _take_and_step(engine, closed=True)


COLOCATED: dict[str, type[Planner]] = {
    "chunked": ChunkedPlanner,
    "prefill_first": PrefillFirstPlanner,
    "static": StaticPlanner,
}


def planners_of(policy: Policy) -> dict[str, Planner]:
    """The planner of each pool of a policy."""
    if policy.serving == "colocated":
        return {"serve": COLOCATED[policy.batching]()}
    return {
        "prefill": PrefillPlanner(),
        "decode": StaticDecodePlanner() if policy.batching == "static" else DecodePlanner(),
    }


def _take_and_step(engine: Engine, *, closed: bool) -> Plan | None:
    """Take who was handed over (into a closed batch only when it is empty), then a step of all."""
    while True:
        if not closed or not engine.decoding:
            engine.server.decode_queue.fill(engine)
        if not engine.decoding:
            return None
        plan = _decode_step(engine)
        if plan is not None or engine.decoding or engine.stalled:
            return plan  # else making room preempted the last one, and others may wait for its slot


def _decode_step(engine: Engine) -> Plan | None:
    """A step of all decoding sequences, if there are any and they fit; what it preempts may start again at once."""
    before = engine.server.preemptions
    if not engine.decoding or not engine.server.preemption.make_room(engine):
        return None
    return Plan(True, steady=engine.server.preemptions == before)


def _continue_prompts(engine: Engine, left: int) -> Chunks:
    """Chunks of prompts under way, in order of admission."""
    chunks: Chunks = []
    now = engine.server.env.now
    for sequence in engine.prefilling:
        if left <= 0:
            break
        if sequence.ready_s > now:
            continue
        tokens = min(left, sequence.target - sequence.done)
        chunks.append((sequence, tokens))
        left -= tokens
    return chunks


def _admit_chunks(engine: Engine, chunks: Chunks, left: int, max_batch: int, reserved: int) -> None:
    """Admit prompts while tokens, slots and memory (less `reserved` blocks) last; the head waits for memory."""
    server = engine.server
    while left > 0 and server.waiting and engine.in_service < max_batch and server.can_admit(reserved):
        sequence = server.admit(engine)
        if sequence.ready_s > server.env.now:
            continue
        tokens = min(left, sequence.target - sequence.done)
        chunks.append((sequence, tokens))
        left -= tokens


def _admit_whole(engine: Engine, chunks: Chunks) -> Chunks:
    """Add whole prompts to `chunks` (what has come from the host) while they fit budget, slots and memory."""
    server = engine.server
    left = engine.limits.token_budget - sum(tokens for _, tokens in chunks)
    while server.waiting and engine.in_service < engine.limits.max_batch and server.can_admit(0):
        tokens = server.reuse.to_compute(server.waiting.head)
        if chunks and tokens > left:
            break
        sequence = server.admit(engine)
        if sequence.ready_s <= server.env.now:
            chunks.append((sequence, tokens))
            left -= tokens
    return chunks
