"""Task maps in which dies take work of the other phase for one iteration at a time, without changing their pool.

`stealing`: each pool does its own work first.
- A prefill pool without prompts it may start takes sequences that wait for a slot while the decode pool is full,
  decodes them for one step, and puts them back at the head of the queue for slots.
- A decode pool with nothing to decode takes waiting prompts for one iteration; what is left of them goes on in the
  prefill pool.

`fcfs`: the decoding sequences are one batch, whose step either pool may run; a pool that is free takes what waits for
longest: a prompt since its arrival (or since its last chunk ended), the batch since its last step ended.

Work is done at the rate that the dies have for it: the cost of the design in which both pools are exchanged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simulators.serving.planners import DecodePlanner, PrefillPlanner

if TYPE_CHECKING:
    from simulators.serving.engine import Engine, Plan
    from simulators.serving.server import Server

PREFILL, DECODE = PrefillPlanner(), DecodePlanner()


class PromptThief:
    """The decode pool of a stealing server."""

    def plan(self, engine: Engine) -> Plan | None:
        """Decode; with nothing to decode, prompts."""
        engine.do("decode")
        plan = DECODE.plan(engine)
        if plan is not None or engine.decoding:
            return plan
        engine.do("prefill")
        return PREFILL.plan(engine)


class StepThief:
    """The prefill pool of a stealing server."""

    def plan(self, engine: Engine) -> Plan | None:
        """Prompts; without any, a step of those that wait for a slot."""
        engine.do("prefill")
        plan = PREFILL.plan(engine)
        server = engine.server
        if plan is not None or not server.decode_queue.waiting or not _decode_is_full(server):
            return plan
        engine.do("decode")
        plan = DECODE.plan(engine)
        if plan is None:
            server.decode_queue.take_back(engine)
        else:
            plan.steady = False
        return plan


class OldestFirst:
    """Either pool of a server that takes the oldest work first."""

    def plan(self, engine: Engine) -> Plan | None:
        """The older of both kinds of work that can start, else the other."""
        kinds = [(since_s, phase) for phase, since_s in _waiting_since(engine).items()]
        for _, phase in sorted(kinds):
            engine.do(phase)
            plan = PREFILL.plan(engine) if phase == "prefill" else DECODE.plan(engine)
            if plan is not None:
                return plan
        return None


def _waiting_since(engine: Engine) -> dict[str, float]:
    server, decoding = engine.server, engine.decoding
    since: dict[str, float] = {}
    if not decoding.running and (decoding or server.decode_queue.waiting):
        since["decode"] = decoding.last_step_s if decoding else server.decode_queue.waiting[0].last_token_s
    if engine.prefilling:
        since["prefill"] = engine.last_prompts_s
    elif server.waiting:
        since["prefill"] = server.waiting.head.arrival_s
    return since


def _decode_is_full(server: Server) -> bool:
    return all(len(e.decoding) >= e.limits.max_batch for e in server.engines if e.pool == "decode")


def share_decoding(server: Server) -> None:
    """Give all engines one batch of decoding sequences."""
    first = next(engine for engine in server.engines if engine.pool == "decode")
    for engine in server.engines:
        engine.decoding = first.decoding


def settle(server: Server, ended: Engine) -> None:
    """Put back what was taken from the other pool for the iteration that ended, and let both look for work."""
    if server.policy.task_map == "stealing":
        if ended.pool == "prefill" and ended.decoding:
            server.decode_queue.take_back(ended)
        elif ended.pool == "decode" and ended.prefilling:
            owner = next(engine for engine in server.engines if engine.pool == "prefill")
            for sequence in ended.prefilling:
                sequence.engine = owner
            owner.prefilling[:0] = ended.prefilling
            ended.prefilling.clear()
    for engine in server.engines:
        if engine is not ended:
            engine.wake()
