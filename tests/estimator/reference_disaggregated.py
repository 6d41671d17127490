"""The disaggregated half of the reference engine: two pools that slow each other down while both run."""

from __future__ import annotations

from collections import deque

import numpy as np

from tests.estimator.reference_engine import Cache, Decoders, IterationTime, Log, Prompts, Rules, Speeds, _log


def disaggregated(
    arrival: np.ndarray,
    prompt: np.ndarray,
    output: np.ndarray,
    times: tuple[IterationTime, IterationTime],
    rules: Rules,
    speeds: Speeds,
    handoff_s: float = 0.0,
) -> Log:
    """Run a prefill and a decode pool; `speeds` gives both their speeds while they run.

    Prefill takes prompts in order up to the token budget, pauses while `max_batch` finished prompts wait for a
    decode slot; finished prompts hold their memory; decode admits up to `max_batch` at an iteration's start.
    """
    count, log, cache = len(arrival), _log(len(arrival)), Cache(rules)
    decoders, prompts = Decoders(prompt, output, cache), Prompts(prompt, rules, cache, log)
    ready: deque[int] = deque()
    moving: deque[tuple[float, int]] = deque()
    now, come, left = 0.0, 0, count
    rest = [0.0, 0.0]
    batch: list[tuple[int, float, int, float] | None] = [None, None]
    ending: list[int] = []
    while left:
        while come < count and arrival[come] <= now:
            prompts.arrive(come)
            come += 1
        while moving and moving[0][0] <= now:
            ready.append(moving.popleft()[1])
        changed = False
        if batch[0] is None and len(ready) + len(moving) < rules.max_batch:
            tokens, pairs, ending = prompts.pack(rules.token_budget, 1 << 30, now)
            if tokens:
                batch[0] = (0, 0.0, tokens, pairs)
                rest[0] = times[0](*batch[0])
                changed = True
        if batch[1] is None:
            while ready and len(decoders) < rules.max_batch:
                i = ready.popleft()
                decoders.add(i, prompts.again.get(i, 0) + 1)
                tokens = int(prompt[i]) + prompts.again.get(i, 0) + 1
                cache.used += cache.size(tokens) - cache.size(tokens - 1)
            while len(decoders) > 1 and cache.used + cache.growth() > rules.memory_tokens:
                i = decoders.newest()
                prompts.again[i] = decoders.remove(i)
                prompts.waiting.appendleft(i)
                log.preemptions += 1
            if len(decoders):
                batch[1] = (len(decoders), decoders.context, 0, 0.0)
                rest[1] = times[1](*batch[1])
                changed = True
        if changed or batch[0] is None or batch[1] is None:
            speed = speeds(batch[0], batch[1])
        ends = [rest[k] / speed[k] if batch[k] else np.inf for k in (0, 1)]
        step = min(ends)
        if come < count and (batch[0] is None or batch[1] is None):
            step = min(step, arrival[come] - now)
        if moving:
            step = min(step, max(0.0, moving[0][0] - now))
        now += step
        log.memory_seconds += cache.used * step
        log.peak_tokens = max(log.peak_tokens, cache.used)
        for k in (0, 1):
            if batch[k] is not None:
                rest[k] -= step * speed[k]
        log.prefill_busy_s += step * (batch[0] is not None)
        log.decode_busy_s += step * (batch[1] is not None)
        log.batch_seconds += step * len(decoders)
        if batch[1] is not None and ends[1] <= step * (1 + 1e-12):
            batch[1] = None
            for i in decoders.advance():
                log.last_s[i] = now
                left -= 1
        if batch[0] is not None and ends[0] <= step * (1 + 1e-12):
            batch[0] = None
            for i in ending:
                if np.isnan(log.first_s[i]):
                    log.first_s[i] = now
                if prompts.again.get(i, 0) + 1 >= output[i]:
                    log.last_s[i] = now
                    cache.used -= cache.size(prompts.length(i))
                    left -= 1
                else:
                    moving.append((now + handoff_s, i))
    log.end_s = now
    return log
