"""Utilisation and power of every die, memory stack and link over a window, from the ledgers of the pools.

Power by component and power by cause are two sums of the same joules; both must give static power plus dynamic energy
over time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from hydra_dse.design.nouns import Design
from hydra_dse.errors import InvariantBroken
from hydra_dse.hardware.components import Package
from hydra_dse.hardware.fabric import port_names
from hydra_dse.physical import memory_static_w, static_power_w
from hydra_dse.results import Component, Components
from simulators.noi.links import PlacedLinks
from simulators.package.ledger import Ledger

FloatArray = NDArray[np.float64]
BALANCE = 1e-9
"""Relative difference of two sums of the same numbers in another order."""


def components_of(
    design: Design, ledgers: Sequence[Ledger], seconds: float, parts: Mapping[str, tuple[str, float]]
) -> Components | None:
    """Return all components of a placed design, or None where no time was measured.

    Args:
        design: placed.
        ledgers: of every pool and window.
        seconds: length of the windows together.
        parts: die group of the design, and share of its dies, of die groups that ledgers know by another name.

    Raises:
        InvariantBroken: power by component, power by cause and energy over time differ.
    """
    if design.placement is None or not ledgers or seconds <= 0.0:
        return None
    package = design.package
    links = PlacedLinks(package, design.placement.slots)
    found = (
        *_dies(package, links.slots, ledgers, seconds, parts),
        *_memories(package, links.slots, ledgers, seconds),
        *_links(package, links, ledgers, seconds),
    )
    by_cause = {
        "compute": sum(sum(ledger.compute_j.values()) for ledger in ledgers) / seconds,
        "sram": sum(sum(ledger.sram_j.values()) for ledger in ledgers) / seconds,
        "memory": sum(ledger.memory_j for ledger in ledgers) / seconds,
        "noi": sum(ledger.link_j for ledger in ledgers) / seconds,
        "static": static_power_w(package),
    }
    total = static_power_w(package) + sum(ledger.energy_j for ledger in ledgers) / seconds
    check_balance(found, by_cause, total)
    return Components(seconds, found, by_cause)


def check_balance(parts: Sequence[Component], by_cause: Mapping[str, float], total_w: float) -> None:
    """Check that nothing was counted twice or forgotten.

    Raises:
        InvariantBroken: a sum differs.
    """
    sums = {
        "components": sum(part.dynamic_w + part.static_w for part in parts),
        "causes": sum(by_cause.values()),
    }
    for name, power in sums.items():
        if not math.isclose(power, total_w, rel_tol=BALANCE):
            raise InvariantBroken(f"the power of all {name} is {power} W where energy over time is {total_w} W")


def check_capacity(ledgers: Sequence[Ledger], seconds: float) -> None:
    """Check that no die, memory site or link was busy longer than a whole run took.

    Raises:
        InvariantBroken: one was: bytes or operations were counted that nothing had the time for.
    """
    if not ledgers:
        return
    most = seconds * (1.0 + BALANCE)
    for kind, busy in (
        ("memory site", np.sum([ledger.site_s for ledger in ledgers], axis=0)),
        ("link", np.sum([ledger.link_s for ledger in ledgers], axis=0)),
    ):
        if len(busy) and busy.max() > most:
            raise InvariantBroken(f"{kind} {int(busy.argmax())} was busy for {busy.max()} s of a run of {seconds} s")
    for name in {name: None for ledger in ledgers for name in ledger.die_s}:
        used = sum(ledger.die_s.get(name, 0.0) for ledger in ledgers)
        if used > most:
            raise InvariantBroken(f"die group {name} was busy for {used} s of a run of {seconds} s")


def _dies(
    package: Package,
    slots: Sequence[int],
    ledgers: Sequence[Ledger],
    seconds: float,
    parts: Mapping[str, tuple[str, float]],
) -> list[Component]:
    busy: dict[str, float] = {}
    joules: dict[str, float] = {}
    for ledger in ledgers:
        for name, value in ledger.die_s.items():
            whole, weight = parts.get(name, (name, 1.0))
            busy[whole] = busy.get(whole, 0.0) + value * weight
        for spent in (ledger.compute_j, ledger.sram_j):
            for name, value in spent.items():
                whole, _ = parts.get(name, (name, 1.0))
                joules[whole] = joules.get(whole, 0.0) + value
    at = iter(slots)
    return [
        Component(
            f"{group.name}[{number}]",
            "die",
            f"slot {next(at)}",
            busy.get(group.name, 0.0) / seconds,
            joules.get(group.name, 0.0) / group.count / seconds,
            group.chiplet.static_power_w,
        )
        for group in package.dies
        for number in range(group.count)
    ]


def _of_sites(ledgers: Sequence[Ledger], value: Callable[[Ledger], FloatArray]) -> dict[int, float]:
    """Sum over ledgers by component."""
    found: dict[int, float] = {}
    for ledger in ledgers:
        for component, amount in zip(ledger.site_components, value(ledger).tolist(), strict=True):
            found[component] = found.get(component, 0.0) + amount
    return found


def _memories(package: Package, slots: Sequence[int], ledgers: Sequence[Ledger], seconds: float) -> list[Component]:
    """Stacks, and the memory that comes with a die (whose background power is the die's)."""
    busy, joules = (_of_sites(ledgers, value) for value in (lambda one: one.site_s, lambda one: one.site_j))
    static = [0.0] * package.die_count
    static += [memory_static_w(package, group) for group in package.memories for _ in range(group.count)]
    return [
        Component(
            f"{name} memory" if component < package.die_count else name,
            "memory",
            f"slot {slots[component]}",
            busy.get(component, 0.0) / seconds,
            joules.get(component, 0.0) / seconds,
            static[component],
        )
        for component, name in enumerate(_names(package))
        if component >= package.die_count or component in busy
    ]


def _links(package: Package, links: PlacedLinks, ledgers: Sequence[Ledger], seconds: float) -> list[Component]:
    names = _names(package)
    at = port_names(package) | {slot: names[component] for component, slot in enumerate(links.slots)}
    busy = np.sum([ledger.link_s for ledger in ledgers], axis=0).tolist()
    joules = np.sum([ledger.each_link_j for ledger in ledgers], axis=0).tolist()
    return [
        Component(
            f"{at.get(start, 'empty')}→{at.get(end, 'empty')}",
            "link",
            f"slots {start}→{end}",
            busy[number] / seconds,
            joules[number] / seconds,
            0.0,
        )
        for number, (start, end) in enumerate(links.routes.links)
    ]


def _names(package: Package) -> list[str]:
    """Names of all components, in order."""
    counts = [(group.name, group.count) for group in package.dies]
    counts += [(group.name, group.count) for group in package.memories]
    return [f"{name}[{number}]" for name, count in counts for number in range(count)]
