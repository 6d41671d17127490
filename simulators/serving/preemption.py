"""Preemption: what a server gives up where memory or a slot is short, and how it is computed again.

Two reasons: a decode step that lacks blocks takes the newest sequence of whoever shares the memory; a request of a
higher priority takes those of lower ones, if that gives it a slot and its memory.  All memory of a sequence is freed,
and its prompt and its tokens so far are computed again (recompute, as in vLLM).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hydra_dse.errors import InvariantBroken

if TYPE_CHECKING:
    from simulators.serving.engine import Engine
    from simulators.serving.sequence import Sequence
    from simulators.serving.server import Server


class Preemption:
    """Takes memory and slots from the sequences of a server."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def make_room(self, engine: Engine) -> bool:
        """Preempt the newest sequences until the next decode step of `engine` fits; False if it has to wait.

        Sequences in a running iteration cannot be preempted; the engine then waits for the end of that iteration.
        """
        server = self._server
        engine.stalled = False
        while server.memory.free_blocks < engine.decoding.blocks_due:
            candidates = self._candidates()
            if len(candidates) > 1:
                sequence, holder = max(candidates, key=lambda found: found[0].admission)
                holder.preemption.preempt(sequence)
            elif server.departures.moving or any(
                other.running for sharer in server.memory_sharers for other in sharer.engines
            ):
                engine.stalled = True
                return False
            else:
                raise InvariantBroken("a single sequence does not fit into the cache memory")
        return bool(engine.decoding)

    def make_way(self, engine: Engine, slots: int, reserved: int = 0) -> None:
        """Preempt for the head of the queue what has a lower priority, if that gives it a slot and its memory."""
        server = self._server
        if not server.policy.class_preemption or not server.waiting:
            return
        head = server.waiting.head
        needs_slot = engine.in_service >= slots
        if not needs_slot and server.can_admit(reserved):
            return
        held = self._candidates()
        lower = [(s, h) for s, h in held if s.priority > head.priority and s.level > head.level]
        lower.sort(key=lambda found: (found[0].priority, found[0].admission), reverse=True)
        victims = [found for found in lower if needs_slot and found[0].engine is engine][:1]
        if needs_slot and not victims:
            return
        spare = iter([found for found in lower if found not in victims])
        free = sum(holder.preemption.held_bytes(sequence) for sequence, holder in victims)
        hit = server.reuse.hit(head)
        while not server.memory.admits(head.target, reserved, free, hit):
            more = next(spare, None)
            if more is None:
                return
            victims.append(more)
            free += more[1].preemption.held_bytes(more[0])
        for sequence, holder in victims:
            holder.preemption.preempt(sequence)

    def held_bytes(self, sequence: Sequence) -> float:
        """Memory of a sequence; one that decodes has grown since it joined."""
        server = self._server
        engine = sequence.engine
        grown = engine.decoding.grown(sequence) if engine is not None and sequence in engine.decoding.members else 0
        return server.reuse.held_bytes(sequence, sequence.target + grown)

    def _candidates(self) -> list[tuple[Sequence, Server]]:
        """Sequences that hold this memory and are not in a running iteration, and whose they are."""
        server = self._server
        candidates: list[tuple[Sequence, Server]] = []
        for sharer in server.memory_sharers:
            held = list(sharer.decode_queue.waiting)
            for other in sharer.engines:
                if not other.running:
                    if server.source is None:
                        held.extend(other.prefilling)
                    if not other.decoding.running:
                        held.extend(other.decoding.members)
            candidates.extend((sequence, sharer) for sequence in dict.fromkeys(held))
        return candidates

    def preempt(self, sequence: Sequence) -> None:
        """Free all memory of a sequence; its prompt and its tokens are to be computed again."""
        server = self._server
        engine = sequence.engine
        if engine is None:
            server.decode_queue.drop(sequence)
        elif sequence in engine.decoding.members:
            server.leave(sequence, engine)
        else:
            engine.prefilling.remove(sequence)
        server.reuse.release(sequence)
        sequence.arrived = False
        sequence.preemptions += 1
        server.preemptions += 1
        sequence.returned = server.preemptions
        sequence.target = sequence.prompt + sequence.emitted
        sequence.done = 0
        sequence.engine = None
        server.waiting.push(sequence)
        server.wake(
            prompts_only=not server.decode_queue.waiting
        )  # its slot may be what a handed-over sequence waits for
