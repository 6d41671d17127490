"""Turns of sampled sessions: their lengths, blocks and dates, and length points of the long run.

Sessions start by the workload's arrival process at the request rate over the mean number of turns, so that a rate
always counts requests.  A draw begins in the midst of sessions that started before it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from hydra_dse.rng import derive
from hydra_dse.workload.nouns import Arrivals, FloatArray, IntArray, LengthPoints, Requests, Workload
from hydra_dse.workload.points import MAX_POINTS, thin
from hydra_dse.workload.prefixes import Prefixes

MOST_EARLIER = 10
"""Sessions that started before the draw, at most so many per drawn request."""
SAMPLED_SESSIONS = 20_000
"""Sessions behind length points."""
PATH_BITS = 24
"""A block id holds the index of the block in this many bits; more than the longest prompt has blocks."""


@dataclass(frozen=True)
class Turns:
    """Turns of sessions, session by session, one entry per turn.

    Attributes:
        session, number: of the session, and of the turn within it from 0.
        class_index: of the session.
        system: index of its system prompt, 0 where there are none.
        shared_tokens: length of the system prompt.
        history_tokens: prompt and output of the turn before; the shared ones for the first.
        prompt_tokens, output_tokens: lengths.
        last: whether the session ends with this turn.
    """

    session: IntArray
    number: IntArray
    class_index: IntArray
    system: IntArray
    shared_tokens: IntArray
    history_tokens: IntArray
    prompt_tokens: IntArray
    output_tokens: IntArray
    last: np.ndarray

    def __len__(self) -> int:
        return len(self.session)


def turns_of(
    workload: Workload,
    prefixes: Prefixes,
    counts: IntArray,
    system: IntArray,
    classes: IntArray,
    rng: np.random.Generator,
) -> Turns:
    """Lengths of all turns of sessions with these numbers of turns, system prompts and classes."""
    session = np.repeat(np.arange(len(counts)), counts)
    first = np.cumsum(counts) - counts
    number = np.arange(len(session)) - first[session]
    kind = classes[session]
    new, output = np.empty(len(session), dtype=np.int64), np.empty(len(session), dtype=np.int64)
    for index, (one, stream) in enumerate(zip(workload.classes, rng.spawn(len(workload.classes)), strict=True)):
        mine = kind == index
        new[mine], output[mine] = one.lengths.sample(int(mine.sum()), stream)
    shared = np.array(prefixes.system_tokens or (0,), dtype=np.int64)[system][session]
    total = np.cumsum(new + output)
    before = total - new - output
    history = shared + before - before[first][session]
    return Turns(
        session, number, kind, system[session], shared, history, history + new, output, number == counts[session] - 1
    )


def draw_turns(
    workload: Workload,
    prefixes: Prefixes,
    count: int,
    for_times: np.random.Generator,
    for_classes: np.random.Generator,
    for_lengths: np.random.Generator,
    for_prefixes: np.random.Generator,
) -> Requests:
    """Draw `count` requests of sessions, in the order in which they would arrive if answers took no time."""
    for_turns, for_think, for_system = for_prefixes.spawn(3)
    starts = _starts(workload.arrivals, prefixes, count, for_times)
    counts = 1 + for_turns.choice(len(prefixes.turns), len(starts), p=prefixes.turns)
    system = np.zeros(len(starts), dtype=np.int64)
    if prefixes.popularity:
        system = for_system.choice(len(prefixes.popularity), len(starts), p=prefixes.popularity)
    classes = for_classes.choice(len(workload.classes), len(starts), p=_shares(workload))
    turns = turns_of(workload, prefixes, counts, system, classes, for_lengths)
    think = np.where(turns.number > 0, prefixes.think.sample(len(turns), for_think), 0.0)
    passed = np.cumsum(think)
    first = np.cumsum(counts) - counts
    due = starts[turns.session] + passed - passed[first][turns.session]
    chosen = np.flatnonzero(due >= 0.0)
    chosen = chosen[np.argsort(due[chosen], kind="stable")][:count]
    place = np.full(len(turns), -1, dtype=np.int64)
    place[chosen] = np.arange(len(chosen))
    parent = np.where(turns.number[chosen] > 0, place[chosen - 1], -1)
    times = due[chosen]
    return Requests(
        times - times[0],
        turns.prompt_tokens[chosen],
        turns.output_tokens[chosen],
        turns.class_index[chosen],
        _blocks(turns, prefixes, chosen),
        block_tokens=prefixes.block_tokens,
        parent=parent if len(prefixes.turns) > 1 else None,
        think_s=think[chosen] if len(prefixes.turns) > 1 else None,
        turn=turns.number[chosen] if len(prefixes.turns) > 1 else None,
    )


def _shares(workload: Workload) -> FloatArray:
    shares = np.array([kind.share for kind in workload.classes])
    return np.asarray(shares / shares.sum())


def _starts(arrivals: Arrivals, prefixes: Prefixes, count: int, rng: np.random.Generator) -> FloatArray:
    """Start times of enough sessions for `count` turns after time 0; those before 0 are under way."""
    rate = arrivals.statistics().rate_per_s / prefixes.mean_turns
    gaps = len(prefixes.turns) - 1
    longest = prefixes.think.mean_s * (gaps + 3.0 * prefixes.think.cv * math.sqrt(gaps))
    earlier = min(math.ceil(longest * rate), MOST_EARLIER * count)
    sessions = earlier + math.ceil(1.3 * count / prefixes.mean_turns + 10.0 * math.sqrt(count))
    times = arrivals.with_rate(rate).sample(sessions, rng)
    return np.asarray(times - times[earlier])


def _blocks(turns: Turns, prefixes: Prefixes, chosen: IntArray) -> tuple[IntArray, ...]:
    """Ids of the full blocks of prompt and output: those of the system prompt, then the session's own."""
    size = prefixes.block_tokens
    own = (turns.session[chosen] + max(len(prefixes.system_tokens), 1)) << PATH_BITS
    common = turns.system[chosen] << PATH_BITS
    shared = (turns.shared_tokens[chosen] // size).tolist()
    full = ((turns.prompt_tokens[chosen] + turns.output_tokens[chosen]) // size).tolist()
    found = []
    for base, system, some, whole in zip(own.tolist(), common.tolist(), shared, full, strict=True):
        ids = np.arange(base, base + whole, dtype=np.int64)
        ids[:some] = np.arange(system, system + some)
        found.append(ids)
    return tuple(found)


def sampled_turns(workload: Workload, prefixes: Prefixes, sessions: int = SAMPLED_SESSIONS) -> Turns:
    """Turns of many sessions, the same at every call; numbers of turns, prompts and classes by their exact shares."""
    rng = derive(0, "turns of", workload.name)
    for_turns, for_system, for_classes, for_lengths = rng.spawn(4)
    counts = 1 + _systematic(np.array(prefixes.turns), sessions, for_turns)
    system = _systematic(np.array(prefixes.popularity or (1.0,)), sessions, for_system)
    classes = _systematic(_shares(workload), sessions, for_classes)
    return turns_of(workload, prefixes, counts, system, classes, for_lengths)


def _systematic(shares: FloatArray, count: int, rng: np.random.Generator) -> IntArray:
    """Indices in their exact shares (but for rounding), in random order."""
    level = (np.arange(count) + 0.5) / count
    index = np.searchsorted(np.cumsum(shares), level * shares.sum())
    return np.asarray(rng.permutation(np.minimum(index, len(shares) - 1)), dtype=np.int64)


@lru_cache(maxsize=16)
def turn_points(workload: Workload, prefixes: Prefixes, class_index: int | None = None) -> LengthPoints:
    """Prompts (history included) and outputs of all turns as weighted points."""
    turns = sampled_turns(workload, prefixes)
    mine = np.ones(len(turns), dtype=bool) if class_index is None else turns.class_index == class_index
    pairs, count = np.unique(
        np.stack([turns.prompt_tokens[mine], turns.output_tokens[mine]]), axis=1, return_counts=True
    )
    prompt, output = pairs.astype(np.float64)
    return thin(LengthPoints(prompt, output, count / count.sum()), MAX_POINTS)
