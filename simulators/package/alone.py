"""One iteration on an otherwise idle package."""

from __future__ import annotations

from collections.abc import Callable

from hydra_dse.errors import InvariantBroken
from simulators.noi.flows import FlowNetwork
from simulators.package.events import PackageExecution
from simulators.package.execution import Iteration
from simulators.package.program import Program


def run_alone(
    network: FlowNetwork, program: Program, at_block: Callable[[Iteration], None] | None = None
) -> PackageExecution:
    """Execute one iteration on an otherwise idle package and return the package at its end."""
    package = PackageExecution(network)
    ended: list[float] = []
    Iteration(package, program, lambda: ended.append(package.now_s), at_block)
    while not package.idle:
        package.advance(package.next_s())
    if not ended:
        raise InvariantBroken("an iteration came to a standstill")
    return package
