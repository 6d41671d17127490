"""Concurrent flows on links and memory sites, with rates by max-min fairness.

A flow moves one operand between many components at once: its stripes (one per pair of source and target) advance in
proportion, because a tile of the operand is of use only when all its stripes are there.  Per byte of the operand, flow
`f` keeps resource `r` busy for `u_fr` seconds and has `n_fr` stripes on it.  A full resource is shared by its stripes:
no flow takes more than its stripes' share of what flows that are held back elsewhere leave.  With one stripe a flow
this is max-min fairness (Bertsekas and Gallager, "Data Networks", 2nd ed., §6.5.2).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hydra_dse.errors import InvariantBroken
from hydra_dse.routing import RouteTable

FloatArray = NDArray[np.float64]

PASSES = 5000
"""Over all flows, at most, until their rates settle."""
WHOLE_STEPS = 20
"""Passes before steps are shortened."""
SMALLEST_STEP = 0.05
"""Share of the way that a pass goes at least."""
TOLERANCE = 1e-9
"""Of a resource's capacity, for rounding."""

ARBITRATION = 0.90
"""Share of the busiest link at which a network saturates: fitted once to the flit model (four virtual channels of 16
flits, packets of 8), which saturates at 0.85 to 0.97 of it over six traffic cases."""


@dataclass(frozen=True, eq=False)
class Route:
    """Where the bytes of one operand go.

    Attributes:
        name: for messages and accounts.
        busy_s: seconds per operand byte of each resource (memory sites, then links), shape (resources,).
        stripes: pairs of source and target on each resource, shape (resources,).
        hops: links of the longest path, or its latency in seconds where links differ.
        pairs: number of pairs.
        carried: bytes on each resource per operand byte, shape (resources,); None where nobody accounts for them.
    """

    name: str
    busy_s: FloatArray
    stripes: FloatArray
    hops: float
    pairs: int
    carried: FloatArray | None = None


class FlowNetwork:
    """Known routes and the fair rates of any set of them (found once, since they depend on the routes alone).

    `pairs` keeps speeds of pairs of iterations for the package level.
    """

    def __init__(self, check: bool = True) -> None:
        self.routes: list[Route] = []
        self._check = check
        self._rates: dict[tuple[int, ...], tuple[float, ...]] = {}
        self._pools = 0
        self.pairs: dict[tuple[tuple[int, ...], tuple[int, ...]], tuple[float, float]] = {}

    def number_pool(self) -> int:
        """Number the next pool of the package."""
        self._pools += 1
        return self._pools

    def add(self, route: Route) -> int:
        """Make a route known and return its number."""
        self.routes.append(route)
        return len(self.routes) - 1

    def rates(self, flows: tuple[int, ...]) -> tuple[float, ...]:
        """Operand bytes per second of flows on these routes, which may repeat.

        Raises:
            InvariantBroken: a resource would be above its capacity.
        """
        found = self._rates.get(flows)
        if found is None:
            chosen = [self.routes[number] for number in flows]
            busy = np.stack([route.busy_s for route in chosen])
            found = tuple(fair_rates(busy, np.stack([route.stripes for route in chosen])).tolist())
            if self._check and float((np.array(found) @ busy).max()) > 1.0 + TOLERANCE:
                names = ", ".join(route.name for route in chosen)
                raise InvariantBroken(f"flows {names} take more than a resource has")
            self._rates[flows] = found
        return found


def fair_rates(busy_s: FloatArray, stripes: FloatArray) -> FloatArray:
    """Return bytes per second of each flow.

    A fixed point of `x_f = min_r level_fr / u_fr`, where `level_fr` is what resource `r` leaves to `f` when the others
    take what they take: `max_i n_f (1 − v_1 − … − v_i)/(n_f + n_{i+1} + …)`, others in order of `v/n`.

    Args:
        busy_s: shape (flows, resources).
        stripes: shape (flows, resources).
    """
    used = busy_s.max(axis=0) > 0.0
    busy, weight = busy_s[:, used], stripes[:, used]
    alone = 1.0 / busy.max(axis=1)
    rates = np.array(alone)
    if len(rates) == 1:
        return rates
    for number in range(PASSES):
        before = rates.copy()
        # Smaller and smaller steps end the cycles that whole ones may run into.
        step = 1.0 if number < WHOLE_STEPS else max(SMALLEST_STEP, WHOLE_STEPS / 2 / number)
        for flow in range(len(rates)):
            fair = min(float(alone[flow]), _fair_rate(busy, weight, rates, flow))
            rates[flow] += step * (fair - rates[flow])
        if (np.abs(rates - before) <= 1e-12 * before).all():
            break
    return np.asarray(rates / max(1.0, float((rates @ busy).max())))


def _fair_rate(busy: FloatArray, weight: FloatArray, rates: FloatArray, flow: int) -> float:
    mine = busy[flow] > 0.0
    others = np.delete(np.arange(len(rates)), flow)
    taken = busy[others][:, mine] * rates[others, None]
    shares = weight[others][:, mine]
    order = np.argsort(taken / np.maximum(shares, 1e-300), axis=0, kind="stable")
    taken, shares = np.take_along_axis(taken, order, axis=0), np.take_along_axis(shares, order, axis=0)
    nothing = np.zeros((1, taken.shape[1]))
    left = 1.0 - np.concatenate((nothing, np.cumsum(taken, axis=0)))
    still = np.concatenate((np.cumsum(shares[::-1], axis=0)[::-1], nothing))
    own = weight[flow, mine]
    level = (own * left / (own + still)).max(axis=0)
    return float((level / busy[flow, mine]).min())


def saturation_share(table: RouteTable, rates: FloatArray) -> float:
    """Factor by which traffic may grow before the flow model saturates; links carry one unit a cycle.

    Args:
        table: routes between slots.
        rates: shape (slots, slots), units per cycle from slot to slot.
    """
    busiest = float((table.incidence @ rates.ravel()).max())
    return ARBITRATION / busiest if busiest > 0.0 else float("inf")


def stripes_on(paths: Sequence[Sequence[int]], resources: int, offset: int) -> FloatArray:
    """Number of paths over each link, counted from `offset`, shape (resources,)."""
    count = np.zeros(resources)
    for path in paths:
        count[[offset + link for link in path]] += 1.0
    return count
