"""Routes of what the operators of a pool move: operands between memory sites and dies, activations between dies."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from hydra_dse.mapping import ExecutionGroup, Transfer
from simulators.noi.flows import FlowNetwork, Route, stripes_on
from simulators.package.coefficients import PlacedHardware

FloatArray = NDArray[np.float64]

ACCESS = "access"
"""Name of the routes of starts of accesses."""


class PoolRoutes:
    """Registers the routes of one pool, each once.

    Args:
        hardware: the placed package.
        pool: name of the pool, which the routes bear.
        network: where they are registered; shared by all pools of the package.
    """

    def __init__(self, hardware: PlacedHardware, pool: str, network: FlowNetwork) -> None:
        self.hardware, self.pool, self.network = hardware, pool, network
        self._known: dict[object, int | None] = {}
        self._expert_fetch: dict[int, list[FloatArray]] = {}

    def experts(self, group: ExecutionGroup) -> list[int | None]:
        """Routes of the weights of experts placed whole, one for each die; empty where there are none."""
        if group.experts is None:
            return []
        if id(group.experts) not in self._expert_fetch:
            fetch = group.experts.fetch
            self._expert_fetch[id(group.experts)] = [fetch[:, [number]] for number in range(len(group.dies))]
        return [
            self.memory(replace(group, dies=(die,)), fetch, "weights", write=False)
            for die, fetch in zip(group.dies, self._expert_fetch[id(group.experts)], strict=True)
        ]

    def memory(self, group: ExecutionGroup, fetch: FloatArray, kind: str, write: bool) -> int | None:
        """Route of an operand between memory sites and the dies of a group."""
        key = (id(fetch), group.dies, kind, write)
        if key not in self._known:
            self._known[key] = self._register_memory(group, fetch, kind, write)
        return self._known[key]

    def _register_memory(self, group: ExecutionGroup, fetch: FloatArray, kind: str, write: bool) -> int | None:
        hardware, links = self.hardware, self.hardware.links
        at = [site.component for site in hardware.mapped.sites]
        busy = np.zeros(hardware.site_count + links.count)
        stripes, paths = np.zeros(len(busy)), []
        for site, die in np.argwhere(fetch > 0.0).tolist():
            busy[site] += fetch[site, die] / hardware.reached(site, group.dies[die], kind)
            stripes[site] += 1.0
            if at[site] != group.dies[die]:
                ends = (group.dies[die], at[site]) if write else (at[site], group.dies[die])
                paths.append((links.path(*ends), fetch[site, die]))
        carried = np.concatenate((fetch.sum(axis=1), np.zeros(links.count)))
        return self._register(f"{kind} {'write' if write else 'read'}", busy, stripes, paths, carried)

    def access(self, group: ExecutionGroup) -> int | None:
        """Route of what the starts of accesses to KV cost: memory sites are busy, nothing moves; None without cost."""
        if self.hardware.kv_access_bytes(group) <= 0.0:
            return None
        key = (id(group.cache_fetch), group.dies, ACCESS)
        if key not in self._known:
            reads = self.memory(group, group.cache_fetch, "kv", write=False)
            if reads is None:
                return None
            route, sites = self.network.routes[reads], self.hardware.site_count
            busy, stripes = (np.where(np.arange(len(x)) < sites, x, 0.0) for x in (route.busy_s, route.stripes))
            self._known[key] = self._register(ACCESS, busy, stripes, [], np.zeros(len(busy)))
        return self._known[key]

    def transfer(self, transfer: Transfer) -> int | None:
        """Route of activations between dies."""
        key = (id(transfer.share), transfer.sources, transfer.targets)
        if key not in self._known:
            links = self.hardware.links
            busy = np.zeros(self.hardware.site_count + links.count)
            paths = [
                (links.path(transfer.sources[row], transfer.targets[column]), transfer.share[row, column])
                for row, column in np.argwhere(transfer.share > 0.0).tolist()
                if transfer.sources[row] != transfer.targets[column]
            ]
            nothing = np.zeros(len(busy))
            self._known[key] = self._register(f"activations ({transfer.kind})", busy, nothing, paths, nothing.copy())
        return self._known[key]

    def _register(
        self,
        name: str,
        busy: FloatArray,
        stripes: FloatArray,
        paths: list[tuple[tuple[int, ...], float]],
        carried: FloatArray,
    ) -> int | None:
        sites, capacity = self.hardware.site_count, self.hardware.links.capacity_bytes_per_s
        for path, share in paths:
            busy[[sites + link for link in path]] += share / capacity[list(path)]
            carried[[sites + link for link in path]] += share
        if not busy.any():
            return None
        stripes = stripes + stripes_on([path for path, _ in paths], len(busy), sites)
        hops = max((self.hardware.links.length(path) for path, _ in paths), default=0)
        return self.network.add(Route(f"{self.pool}: {name}", busy, stripes, hops, len(paths), carried))
