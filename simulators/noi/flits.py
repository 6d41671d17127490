"""Flit by flit: a cycle-driven model of wormhole routers with virtual channels, the reference of the flow model.

A packet enters the network through a port of its node, is routed by the table of `hydra_dse.routing`, and holds one
virtual channel of every link that it is on (Dally and Towles, "Principles and Practices of Interconnection Networks",
2004, ch. 12-17).  Every cycle: flits and credits arrive; heads at the front of a channel ask for a free virtual channel
of the link ahead; of the flits that may go one per input port and one per output port goes (separable, input first,
with a pseudo-random order that changes every cycle).  Latency without load, in cycles:
`endpoints + (hops + 1)·router + hops·link + flits − 1`.

All routers of all copies of the network (load points, traffic cases) advance together as arrays.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hydra_dse.errors import InvariantBroken
from hydra_dse.routing import RouteTable
from simulators.noi.routers import FlitParameters, FlitRun

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

NEVER = np.iinfo(np.int64).max // 2
"""A cycle after the end of every run; half of the largest number, so that sums do not overflow."""


class FlitNetwork:
    """Copies of one network, each with its own traffic.

    Args:
        table: routes between slots, which are the nodes.
        parameters: of routers and links.
        rates: packets per cycle from node to node, shape (copies, nodes, nodes).
        cycles: length of the run.
        rng: for creation times and destinations.
    """

    def __init__(
        self, table: RouteTable, parameters: FlitParameters, rates: FloatArray, cycles: int, rng: np.random.Generator
    ) -> None:
        self.parameters, self.cycles = parameters, cycles
        self.copies, self.nodes = rates.shape[:2]
        self.links = len(table.links)
        self._next_link = _next_links(table)
        self._link_end = np.array([target for _, target in table.links])
        self._draw_packets(rates, rng)
        vcs, ports, copies = parameters.vcs, parameters.ports, self.copies
        self._net = copies * self.links * vcs
        self._inputs = self._net + copies * self.nodes * ports * vcs
        self._copy_of, self._node_of = self._places()
        depth = parameters.buffer_flits
        self._code = np.zeros((self._net, depth), dtype=np.int64)
        self._ready = np.zeros((self._net, depth), dtype=np.int64)
        self._head = np.zeros(self._net, dtype=np.int64)
        self._count = np.zeros(self._net, dtype=np.int64)
        self._front = np.zeros(self._inputs, dtype=np.int64)
        self._front_ready = np.full(self._inputs, NEVER, dtype=np.int64)
        self._out = np.full(self._inputs, -1, dtype=np.int64)
        self._out_vc = np.full(self._inputs, -1, dtype=np.int64)
        self._credits = np.full(self._net, depth, dtype=np.int64)
        self._taken = np.zeros((copies * self.links, vcs), dtype=bool)
        self._arrivals: list[list[tuple[IntArray, IntArray]]] = [[] for _ in range(parameters.link_cycles + 1)]
        self._returns: list[list[IntArray]] = [[] for _ in range(parameters.link_cycles + 1)]
        self.arrived_at = np.full(len(self.created), NEVER, dtype=np.int64)
        self.moved = np.zeros(copies, dtype=np.int64)
        self._entered = 0
        self._left = 0
        self._load_sources(np.arange(self._inputs - self._net), 0)

    # -- set-up -----------------------------------------------------------------------------------------------

    def _places(self) -> tuple[IntArray, IntArray]:
        """Copy and node (router) of every input channel: those of links, then those of the ports of nodes."""
        vcs, per_node = self.parameters.vcs, self.parameters.ports * self.parameters.vcs
        links = np.repeat(np.arange(self.copies * self.links), vcs)
        sources = np.repeat(np.arange(self.copies * self.nodes), per_node)
        copy = np.concatenate((links // self.links, sources // self.nodes))
        return copy, np.concatenate((self._link_end[links % self.links], sources % self.nodes))

    def _draw_packets(self, rates: FloatArray, rng: np.random.Generator) -> None:
        """Creation times and destinations: a Bernoulli trial per node and cycle, dealt to the channels of its ports."""
        per_node = rates.sum(axis=2).reshape(-1)
        if per_node.max(initial=0.0) > 1.0:
            # More than a packet a cycle is made of several trials.
            raise ValueError(f"a node offers {per_node.max():.2f} packets per cycle; at most 1 is simulated")
        source, created = np.nonzero(rng.random((len(per_node), self.cycles)) < per_node[:, None])
        share = np.cumsum(rates.reshape(len(per_node), -1), axis=1)
        share /= np.maximum(share[:, -1:], 1e-300)
        draw = rng.random(len(source))
        self._target = np.empty(len(source), dtype=np.int64)
        for node in np.unique(source).tolist():
            mine = source == node
            self._target[mine] = np.searchsorted(share[node], draw[mine], side="right")
        self.created, self._source = created.astype(np.int64), source
        channels = self.parameters.ports * self.parameters.vcs
        first = np.searchsorted(source, np.arange(len(per_node) + 1))
        # Packet `first + channel`, then every `channels`-th one, goes through a channel of the node.
        offset = np.tile(np.arange(channels), len(per_node))
        self._queue_next = np.repeat(first[:-1], channels) + offset
        self._queue_end = np.repeat(first[1:], channels)
        self._stride = channels

    @property
    def source_node(self) -> IntArray:
        """Node that each packet comes from."""
        return np.asarray(self._source % self.nodes)

    @property
    def target_node(self) -> IntArray:
        """Node that each packet goes to."""
        return self._target

    # -- a cycle ----------------------------------------------------------------------------------------------

    def run(self, warmup: int, drain: int) -> FlitRun:
        """Run all cycles; what was created from `warmup` on until `drain` cycles before the end is measured."""
        marks = []
        for now in range(self.cycles):
            if now in (warmup, self.cycles - drain):
                marks.append(self.moved.copy())
            self._cycle(now)
        self._check()
        return self._measured(warmup, self.cycles - drain, marks[-1] - marks[0])

    def _cycle(self, now: int) -> None:
        slot = now % len(self._arrivals)
        for channels, codes in self._arrivals[slot]:
            self._buffer(channels, codes, now)
        self._arrivals[slot] = []
        for channels in self._returns[slot]:
            self._credits[channels] += 1
        self._returns[slot] = []
        ready = np.flatnonzero(self._front_ready <= now)
        if not len(ready):
            return
        self._route(ready)
        order = (ready * 7919 + now * 104_729) % 65_521
        self._give_channels(ready, order)
        out_vc = self._out_vc[ready]
        to_node = self._out[ready] >= self.copies * self.links
        may = to_node | ((out_vc >= 0) & (self._credits[out_vc] > 0))
        going, order = ready[may], order[may]
        chosen = _first_of_each(going // self.parameters.vcs, order)
        going, order = going[chosen], order[chosen]
        going = going[_first_of_each(self._out[going], order)]
        if len(going):
            self._go(going, now)

    def _buffer(self, channels: IntArray, codes: IntArray, now: int) -> None:
        at = (self._head[channels] + self._count[channels]) % self.parameters.buffer_flits
        if (self._count[channels] >= self.parameters.buffer_flits).any():
            raise InvariantBroken("a flit arrived at a full buffer")
        ready = now + self.parameters.router_cycles
        self._code[channels, at] = codes
        self._ready[channels, at] = ready
        empty = channels[self._count[channels] == 0]
        self._count[channels] += 1
        self._front[empty] = self._code[empty, self._head[empty]]
        self._front_ready[empty] = ready

    def _route(self, ready: IntArray) -> None:
        """Choose the way out of heads that have just come to the front."""
        fresh = ready[self._out[ready] < 0]
        packet = self._front[fresh] // self.parameters.packet_flits
        copy, here = self._copy_of[fresh], self._node_of[fresh]
        link = self._next_link[here, self._target[packet]]
        port = (copy * self.nodes + here) * self.parameters.ports + packet % self.parameters.ports
        self._out[fresh] = np.where(link >= 0, copy * self.links + link, self.copies * self.links + port)

    def _give_channels(self, ready: IntArray, order: IntArray) -> None:
        """Give free virtual channels of the links ahead to heads that have none."""
        asks = (self._out_vc[ready] < 0) & (self._out[ready] < self.copies * self.links)
        asking, order = ready[asks], order[asks]
        if not len(asking):
            return
        sort = np.lexsort((order, self._out[asking]))
        asking = asking[sort]
        link = self._out[asking]
        first = np.concatenate(([True], link[1:] != link[:-1]))
        rank = np.arange(len(link)) - np.maximum.accumulate(np.where(first, np.arange(len(link)), 0))
        free = (~self._taken[link]).sum(axis=1)
        gets = rank < free
        asking, link, rank = asking[gets], link[gets], rank[gets]
        vc = np.argsort(self._taken[link], axis=1, kind="stable")[np.arange(len(link)), rank]
        self._taken[link, vc] = True
        self._out_vc[asking] = link * self.parameters.vcs + vc

    def _go(self, going: IntArray, now: int) -> None:
        """Let flits cross the switch."""
        flits, slot = self.parameters.packet_flits, (now + self.parameters.link_cycles) % len(self._arrivals)
        code, out, out_vc = self._front[going], self._out[going], self._out_vc[going]
        on = out < self.copies * self.links
        self._credits[out_vc[on]] -= 1
        self._arrivals[slot].append((out_vc[on], code[on]))
        tail = code % flits == flits - 1
        leaves = on & tail
        self._taken[out[leaves], out_vc[leaves] % self.parameters.vcs] = False
        done = ~on
        self.moved += np.bincount(self._copy_of[going[done]], minlength=self.copies)
        self.arrived_at[code[done & tail] // flits] = now + self.parameters.endpoint_cycles - _way_in(self.parameters)
        self._left += int(done.sum())
        self._out[going[tail]] = -1
        self._out_vc[going[tail]] = -1
        net = going[going < self._net]
        self._returns[slot].append(net)
        self._pop(net)
        sources = going >= self._net
        self._entered += int(sources.sum())
        self._next_flits(going[sources], code[sources], now)

    def _pop(self, net: IntArray) -> None:
        self._head[net] = (self._head[net] + 1) % self.parameters.buffer_flits
        self._count[net] -= 1
        more = self._count[net] > 0
        full, empty = net[more], net[~more]
        self._front[full] = self._code[full, self._head[full]]
        self._front_ready[full] = self._ready[full, self._head[full]]
        self._front_ready[empty] = NEVER

    def _next_flits(self, inputs: IntArray, code: IntArray, now: int) -> None:
        """Bring the next flit of sources to their front."""
        tail = code % self.parameters.packet_flits == self.parameters.packet_flits - 1
        self._front[inputs[~tail]] += 1
        done = inputs[tail] - self._net
        self._queue_next[done] += self._stride
        self._load_sources(done, now)

    def _load_sources(self, sources: IntArray, now: int) -> None:
        packet = self._queue_next[sources]
        there = packet < self._queue_end[sources]
        inputs, packet = sources[there] + self._net, packet[there]
        self._front[inputs] = packet * self.parameters.packet_flits
        ready = self.created[packet] + _way_in(self.parameters) + self.parameters.router_cycles
        self._front_ready[inputs] = np.maximum(ready, now + 1)
        self._front_ready[sources[~there] + self._net] = NEVER

    # -- results ----------------------------------------------------------------------------------------------

    def _check(self) -> None:
        """No flit was lost or made, and no credit: those that entered left, or are in buffers or on links."""
        flying = sum(len(codes) for entries in self._arrivals for _, codes in entries)
        if self._entered != self._left + flying + int(self._count.sum()):
            raise InvariantBroken(f"{self._entered} flits entered the network and {self._left} left it")
        returning = sum(len(channels) for entries in self._returns for channels in entries)
        owed = self._net * self.parameters.buffer_flits - int(self._credits.sum())
        if owed != flying + int(self._count.sum()) + returning:
            raise InvariantBroken(f"{owed} credits are out for {flying + int(self._count.sum())} flits")

    def _measured(self, start: int, end: int, moved: IntArray) -> FlitRun:
        copy = self._source // self.nodes
        window = (self.created >= start) & (self.created < end)
        there = window & (self.arrived_at <= self.cycles)
        made = np.bincount(copy[window], minlength=self.copies)
        came = np.bincount(copy[there], minlength=self.copies)
        waited = np.bincount(copy[there], (self.arrived_at - self.created)[there], minlength=self.copies)
        return FlitRun(
            latency_cycles=waited / np.maximum(came, 1),
            accepted=moved / (end - start),
            offered=made * self.parameters.packet_flits / (end - start),
            left_behind=1.0 - came / np.maximum(made, 1),
        )


def _way_in(parameters: FlitParameters) -> int:
    """Endpoint cycles before the first router; the rest come after the last one."""
    return parameters.endpoint_cycles // 2


def _next_links(table: RouteTable) -> IntArray:
    """Link that a flow in a slot to another takes next, shape (slots, slots); -1 at its end."""
    here = np.arange(len(table.next_slot))[:, None]
    return np.asarray(np.where(table.next_slot == here, -1, table.link_index[here, table.next_slot]))


def _first_of_each(group: IntArray, order: IntArray) -> IntArray:
    """Positions of the member of each group that comes first in the order."""
    sort = np.lexsort((order, group))
    ranked = group[sort]
    return sort[np.concatenate(([True], ranked[1:] != ranked[:-1]))] if len(sort) else sort
