"""A small iteration-level engine with exact contexts and memory: the measure of the estimator's error.

Plain loops over iterations, independent of the estimator and of the project's simulators; it obeys the same
stated policy.  Service times come from a scalar function `time(b, K, T, A)`: `b` decoding sequences with `K`
context tokens in total, `T` prompt tokens and `A` causal pairs of prompt chunks.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

IterationTime = Callable[[int, float, int, float], float]
Speeds = Callable[[tuple[int, float, int, float] | None, tuple[int, float, int, float] | None], tuple[float, float]]


@dataclass
class Rules:
    """Policy and memory of the engine; memory in tokens of KV, state as so many tokens per sequence."""

    max_batch: int
    token_budget: int
    prefill_first: bool = False
    memory_tokens: float = float("inf")
    state_tokens: float = 0.0
    block_tokens: int = 16
    sjf: bool = False


@dataclass
class Log:
    """What happened: one entry per request, and time integrals."""

    first_s: np.ndarray
    last_s: np.ndarray
    scheduled_s: np.ndarray
    preemptions: int = 0
    batch_seconds: float = 0.0
    memory_seconds: float = 0.0
    prefill_busy_s: float = 0.0
    decode_busy_s: float = 0.0
    end_s: float = 0.0
    peak_tokens: float = 0.0


@dataclass
class Cache:
    """Block-rounded memory; decoding sequences grow together, so they are counted by tokens modulo the block."""

    rules: Rules
    used: float = 0.0
    shift: int = 0
    residues: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.residues = [0] * self.rules.block_tokens

    def size(self, tokens: int) -> float:
        block = self.rules.block_tokens
        return self.rules.state_tokens + block * -(-tokens // block)

    def fits(self, tokens: int) -> bool:
        return self.used + self.size(tokens) <= self.rules.memory_tokens or self.used == 0.0

    def join(self, tokens: int) -> None:
        self.residues[(tokens - self.shift) % self.rules.block_tokens] += 1

    def leave(self, tokens: int) -> None:
        self.residues[(tokens - self.shift) % self.rules.block_tokens] -= 1

    def growth(self) -> float:
        return self.rules.block_tokens * self.residues[-self.shift % self.rules.block_tokens]

    def grow(self) -> None:
        self.used += self.growth()
        self.shift += 1


class Decoders:
    """The decoding sequences: a heap by finishing step, so that an iteration costs O(1)."""

    def __init__(self, prompt: np.ndarray, output: np.ndarray, cache: Cache) -> None:
        self.prompt, self.output, self.cache = prompt, output, cache
        self.step = 0
        self.context = 0.0
        self.heap: list[tuple[int, int]] = []
        self.joined: dict[int, int] = {}
        self.order: list[int] = []
        self.emitted: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self.joined)

    def tokens(self, i: int) -> int:
        return int(self.prompt[i]) + self.emitted[i] + self.step - self.joined[i]

    def add(self, i: int, emitted: int) -> None:
        self.emitted[i] = emitted
        self.joined[i] = self.step
        self.order.append(i)
        heapq.heappush(self.heap, (self.step + int(self.output[i]) - emitted, i))
        self.cache.join(int(self.prompt[i]) + emitted)
        self.context += int(self.prompt[i]) + emitted

    def remove(self, i: int) -> int:
        """Take a sequence out and return the tokens it has emitted."""
        tokens = self.tokens(i)
        self.cache.leave(tokens)
        self.cache.used -= self.cache.size(tokens)
        self.context -= tokens
        del self.joined[i]
        return tokens - int(self.prompt[i])

    def newest(self) -> int:
        while self.order[-1] not in self.joined:
            self.order.pop()
        return self.order.pop()

    def advance(self) -> list[int]:
        """One iteration: every sequence gains a token; return those that finish."""
        self.cache.grow()
        self.step += 1
        self.context += len(self.joined)
        done = []
        while self.heap and self.heap[0][0] <= self.step:
            finish, i = heapq.heappop(self.heap)
            if i in self.joined and finish == self.joined[i] + int(self.output[i]) - self.emitted[i]:
                done.append(i)
                self.remove(i)
        return done


class Prompts:
    """Waiting prompts and the one in progress; `pack` takes chunks (prefill first: whole prompts) up to a budget."""

    def __init__(self, prompt: np.ndarray, rules: Rules, cache: Cache, log: Log) -> None:
        self.prompt, self.rules, self.cache, self.log = prompt, rules, cache, log
        self.waiting: deque[int] = deque()
        self.done: dict[int, int] = {}
        self.again: dict[int, int] = {}
        self.active: deque[int] = deque()

    def arrive(self, i: int) -> None:
        if not self.rules.sjf:
            self.waiting.append(i)
            return
        place = len(self.waiting)
        while place and self.prompt[self.waiting[place - 1]] > self.prompt[i]:
            place -= 1
        self.waiting.insert(place, i)

    def length(self, i: int) -> int:
        return int(self.prompt[i]) + self.again.get(i, 0)

    def pack(self, budget: int, slots: int, now: float) -> tuple[int, float, list[int]]:
        """Return tokens, causal pairs and the prompts that end in the next iteration."""
        tokens, pairs, ending = 0, 0.0, []
        while tokens < budget:
            if self.active and self.done[self.active[0]] < self.length(self.active[0]):
                i = self.active[0]
            elif self.waiting and slots > 0 and self.cache.fits(self.length(self.waiting[0])):
                if self.rules.prefill_first and tokens and self.length(self.waiting[0]) > budget - tokens:
                    break
                i = self.waiting.popleft()
                slots -= 1
                self.cache.used += self.cache.size(self.length(i))
                self.done[i] = 0
                self.active.append(i)
                if np.isnan(self.log.scheduled_s[i]):
                    self.log.scheduled_s[i] = now
            else:
                break
            chunk = self.length(i) - self.done[i]
            if not self.rules.prefill_first:
                chunk = min(budget - tokens, chunk)
            pairs += chunk * (self.done[i] + chunk / 2)
            self.done[i] += chunk
            tokens += chunk
            if self.done[i] == self.length(i):
                ending.append(i)
                self.active.popleft()
        return tokens, pairs, ending


def _log(count: int) -> Log:
    return Log(*(np.full(count, np.nan) for _ in range(3)))


def colocated(arrival: np.ndarray, prompt: np.ndarray, output: np.ndarray, time: IterationTime, rules: Rules) -> Log:
    """Run one pool with mixed (chunked) or prefill-only (prefill first) iterations."""
    count, log, cache = len(arrival), _log(len(arrival)), Cache(rules)
    decoders, prompts = Decoders(prompt, output, cache), Prompts(prompt, rules, cache, log)
    now, come, left = 0.0, 0, count
    while left:
        while come < count and arrival[come] <= now:
            prompts.arrive(come)
            come += 1
        while decoders and cache.used + cache.growth() > rules.memory_tokens and len(decoders) > 1:
            i = decoders.newest()
            prompts.again[i] = decoders.remove(i)
            prompts.waiting.appendleft(i)
            log.preemptions += 1
        b = len(decoders)
        slots = rules.max_batch - b - len(prompts.active)
        budget = rules.token_budget if rules.prefill_first else rules.token_budget - b
        tokens, pairs, ending = prompts.pack(budget, slots, now)
        if not tokens and not b:
            now = float(arrival[come])
            continue
        stalled = rules.prefill_first and tokens > 0
        took = time(0, 0.0, tokens, pairs) if stalled else time(b, decoders.context, tokens, pairs)
        log.batch_seconds += b * took
        log.memory_seconds += cache.used * took
        log.peak_tokens = max(log.peak_tokens, cache.used)
        now += took
        if not stalled:
            for i in decoders.advance():
                log.last_s[i] = now
                left -= 1
        left -= _finish_prompts(ending, now, log, decoders, prompts)
    log.end_s = now
    return log


def _finish_prompts(ending: list[int], now: float, log: Log, decoders: Decoders, prompts: Prompts) -> int:
    left = 0
    for i in ending:
        emitted = prompts.again.get(i, 0) + 1
        if np.isnan(log.first_s[i]):
            log.first_s[i] = now
        if emitted >= decoders.output[i]:
            log.last_s[i] = now
            decoders.cache.used -= decoders.cache.size(prompts.length(i))
            left += 1
        else:
            # The token just emitted is written to the cache in the next iteration: it grows then.
            decoders.add(i, emitted)
            tokens = int(decoders.prompt[i]) + emitted
            decoders.cache.used += decoders.cache.size(tokens) - decoders.cache.size(tokens - 1)
    return left
