"""Running totals of a server at an instant, and the check that a finished run left nothing behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hydra_dse.errors import InvariantBroken
from simulators.serving.memory import CacheMemory
from simulators.serving.recorder import Mark

if TYPE_CHECKING:
    from simulators.serving.server import Server


def totals_of(server: Server) -> Mark:
    """The totals now; integrals over time are brought up to date first."""
    now, memory, recorder = server.env.now, server.memory, server.recorder
    if server.tracer is not None:
        server.tracer.marked()
    memory.integrate(now)
    server.decoding_time.integrate(now)
    recorder.gaps.mark()
    return Mark(
        now,
        recorder.tokens,
        recorder.completed,
        server.preemptions,
        server.decoding_time.area,
        memory.block_seconds,
        memory.state_seconds,
        tuple(cost.snapshot() for cost in server.system.costs.values()),
        memory.idle_byte_seconds,
        server.departures.moved,
        () if server.switcher is None else tuple(sorted(server.switcher.changes.items())),
    )


def check_empty(server: Server) -> None:
    """Check that no request, cache or change of roles is left.

    Raises:
        InvariantBroken: something is.
    """
    source = server.source or CacheMemory(server.memory.shape)
    left = (
        len(server.waiting),
        len(server.decode_queue) + len(server.departures),
        server.memory.blocks + source.blocks,
        server.memory.states + source.states,
    )
    if server.switcher is not None and server.switcher.target is not None:
        raise InvariantBroken("a finished run left dies between two roles")
    if any(left) or any(engine.in_service for engine in server.engines):
        raise InvariantBroken(f"a finished run left (waiting, handed over, blocks, states) = {left}")
    if server.memory.prefix is not None:
        server.memory.prefix.check_unread()
