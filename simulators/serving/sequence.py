"""A request while it is served."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simulators.serving.engine import Engine


class Sequence:
    """A request with its dates and its progress.

    Attributes:
        request: index of the request, in order of arrival.
        target: tokens that the current prefill must process: the prompt, and after a preemption also the tokens
            emitted so far.
        done: of these processed.
        emitted: tokens emitted; up to date except while the sequence is in a `DecodeSet`.
        admission: number of its last admission; the largest is the newest.
        returned: number of its last preemption among all; the largest goes to the head of the queue.
        engine: the engine it is prefilling or decoding on, None while it waits.
        priority, level: of its class, and with the ageing of the queue; lower comes first.
        home: the decode engine it was routed to, None where any may take it.
        arrived: whether its caches lie in the memory of the decode pool, where that has one of its own.
        joined_step, ticket: step of the decode set at which it joined, and the number of that stay.
        drawn: index among the drawn requests (turns of sessions arrive in an order of their own).
        path: ids of its prefix units, None without a prefix cache; units: of these that it reads.
        decode_s: when it first joined a decode set.
        gains: tokens that each of its decode steps emits, drawn at its arrival; None = one each.
        steps: decode steps that it has taken, counted where they emit drawn numbers.
        cached: prompt tokens that were found at its first admission; ready_s: when they have come from the host.
    """

    __slots__ = (
        "admission",
        "arrival_s",
        "arrived",
        "cached",
        "class_index",
        "decode_s",
        "done",
        "drawn",
        "emitted",
        "engine",
        "first_token_s",
        "gains",
        "home",
        "joined_step",
        "last_token_s",
        "level",
        "output",
        "path",
        "preemptions",
        "priority",
        "prompt",
        "ready_s",
        "request",
        "returned",
        "scheduled_s",
        "steps",
        "target",
        "ticket",
        "units",
    )

    def __init__(self, request: int, class_index: int, prompt: int, output: int) -> None:
        self.request = request
        self.class_index = class_index
        self.prompt = prompt
        self.output = output
        self.arrival_s = math.nan
        self.scheduled_s = math.nan
        self.first_token_s = math.nan
        self.last_token_s = math.nan
        self.decode_s = math.nan
        self.preemptions = 0
        self.target = prompt
        self.done = 0
        self.emitted = 0
        self.admission = -1
        self.returned = 0
        self.priority = 0
        self.level = 0
        self.engine: Engine | None = None
        self.home: Engine | None = None
        self.joined_step = 0
        self.steps = 0
        self.gains: bytes | None = None
        self.ticket = 0
        self.drawn = request
        self.path: list[int] | None = None
        self.units = 0
        self.arrived = False
        self.cached = 0
        self.ready_s = 0.0
