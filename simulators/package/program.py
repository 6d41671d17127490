"""An iteration as a program: its operators in order of execution, each with what it moves and computes.

Quantities that do not depend on the batch (routes, dies, shares) are found once per pool; a composition then gives
bytes and seconds by operator.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from simulators.iteration import Composition
from simulators.noi.flows import FlowNetwork
from simulators.package.coefficients import PlacedHardware
from simulators.package.routes import PoolRoutes
from simulators.package.steps import PlacedStep, Step


@dataclass(frozen=True, eq=False)
class Program:
    """Blocks of step numbers over a few distinct steps.

    Attributes:
        start_s: the host's cost before the first.
        keeps_dies: whether an iteration keeps its dies until the next operator has its own, so that another one only
            gets what it leaves (a stage of a pipeline takes one batch after the other).
    """

    steps: tuple[Step, ...]
    blocks: tuple[tuple[int, ...], ...]
    start_s: float
    keeps_dies: bool = False


class PoolProgram:
    """Makes the programs of one pool.

    Args:
        hardware: the placed package.
        pool: name of the pool.
        blocks: operator names in order of execution, by block.
        network: routes are registered here; shared by all pools of the package.
    """

    def __init__(
        self, hardware: PlacedHardware, pool: str, blocks: Sequence[Sequence[str]], network: FlowNetwork
    ) -> None:
        self.hardware, self.network = hardware, network
        self.placed = hardware.pool(pool)
        mapped = hardware.mapped.pool(pool)
        number = {operator.operator.name: at for at, operator in enumerate(mapped.operators)}
        self.blocks = tuple(tuple(number[name] for name in block if name in number) for block in blocks)
        self.windows = tuple(sorted({w for w in (each.operator.window for each in mapped.operators) if w is not None}))
        routes = PoolRoutes(hardware, pool, network)
        self.operators = [
            PlacedStep(
                routes,
                placed,
                each,
                mapped.groups[each.group],
                None if each.operator.window is None else self.windows.index(each.operator.window),
            )
            for placed, each in zip(self.placed.operators, mapped.operators, strict=True)
        ]

    def program(self, batch: Composition) -> Program:
        """Return the program of an iteration with this composition."""
        steps = tuple(operator.step(batch) for operator in self.operators)
        running = [step.compute_s > 0.0 or step.read_bytes > 0.0 or bool(step.gathers) for step in steps]
        blocks = tuple(tuple(at for at in block if running[at]) for block in self.blocks)
        whole = tuple(block for block in blocks if block)
        return Program(steps, whole, self.placed.iteration_overhead_s, self.hardware.pipeline > 1)
