"""Identical blocks executed once: a block that starts in a state met before ends as it did then.

How a block goes on depends on the operators ahead (as far as streams reach during it) and on what is under way at its
start: how far streams are ahead and what is left of flows.  Where both are those of an earlier block of the same
iteration, to a fraction of a per cent, the time that block took, the bytes it moved and the state it left are taken
over.  Only for an iteration alone on its package.
"""

from __future__ import annotations

from dataclasses import dataclass

from simulators.package.execution import Iteration
from simulators.package.progress import State

GRAIN = 0.002
"""Coarseness of states, as a share of the mean bytes of a block, and of an operator's reads."""

Key = tuple[object, ...]


@dataclass(frozen=True)
class _Block:
    """What became of a block: operators it could see, its time, operand bytes by route, and the state it left."""

    ahead: tuple[int, ...]
    steps: int
    seconds: float
    moved: tuple[tuple[int, float], ...]
    state: State


class BlockReuse:
    """The blocks of one iteration; an instance is its `at_block`."""

    def __init__(self) -> None:
        self.executed = 0
        self._blocks: dict[Key, list[_Block]] = {}
        self._grain = 0.0
        self._open: tuple[Key, int, float, dict[int, float]] | None = None

    def __call__(self, iteration: Iteration) -> None:
        """Note what became of the block before, and go past all blocks that are known."""
        if not self._grain:
            total = sum(step.read_bytes + step.write_bytes for step in iteration.steps)
            self._grain = GRAIN * max(total, 1.0) / len(iteration.program.blocks)
        self._close(iteration)
        while iteration.at < len(iteration.steps):
            known = self._find(iteration)
            if known is None:
                key = self._key(iteration.state())
                self._open = (key, iteration.at, iteration.package.now_s, dict(iteration.package.moved))
                self.executed += 1
                return
            moved = dict(iteration.package.moved)
            for route, amount in known.moved:
                moved[route] = moved.get(route, 0.0) + amount
            iteration.package.jump(known.seconds, moved)
            iteration.resume(iteration.at + known.steps, known.state)

    def _key(self, state: State) -> Key:
        def rounded(flows: tuple[tuple[int, float], ...]) -> tuple[tuple[int, int], ...]:
            return tuple(sorted((route, round(left / self._grain)) for route, left in flows))

        shares = round(state.fetched / GRAIN), round(state.target / GRAIN)
        return (state.ahead, *shares, rounded(state.tile), rounded(state.writes))

    def _find(self, iteration: Iteration) -> _Block | None:
        at, order = iteration.at, iteration.order
        for block in self._blocks.get(self._key(iteration.state()), ()):
            if order[at : at + len(block.ahead)] == block.ahead:
                return block
        return None

    def _close(self, iteration: Iteration) -> None:
        if self._open is None:
            return
        key, start, since, before = self._open
        self._open = None
        package, state = iteration.package, iteration.state()
        moved = tuple(
            (route, amount - before.get(route, 0.0))
            for route, amount in package.moved.items()
            if amount != before.get(route, 0.0)
        )
        # One past the last operator whose reads were touched; shorter at the end of the program, which never repeats.
        ahead = iteration.order[start : iteration.fetch_at + 2]
        steps = iteration.at - start
        block = _Block(ahead, steps, package.now_s - since, moved, state)
        self._blocks.setdefault(key, []).append(block)
