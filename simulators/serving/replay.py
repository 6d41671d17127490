"""A recorded run of a real engine, served again by the request level with measured layer times."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass, replace

import numpy as np
import simpy
from numpy.typing import NDArray

from hydra_dse.errors import InputError
from hydra_dse.workload.nouns import Requests
from simulators.iteration import FixedCost
from simulators.profiled import EngineSteps, LayerProfile, ProfiledSteps, RecordedRun, Stack
from simulators.serving.memory import CacheShape
from simulators.serving.recorder import Visits
from simulators.serving.server import Server
from simulators.serving.system import System

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Replay:
    """What came out, beside what was recorded.

    Attributes:
        recorded: the run that was replayed.
        visits: dates of the replay, requests in the same order.
        running, waiting, cache_share: at the recorded ticks, shape (ticks,).
        preemptions: requests whose caches were dropped and computed again.
    """

    recorded: RecordedRun
    visits: Visits
    running: FloatArray
    waiting: FloatArray
    cache_share: FloatArray
    preemptions: int

    def latencies(self) -> dict[str, tuple[FloatArray, FloatArray]]:
        """`ttft_s`, `tpot_s` and `e2e_s` of every request: (replayed, recorded)."""
        arrival, steps = self.visits.arrival_s, self.visits.output_tokens - 1
        dates = (
            (self.visits.first_token_s, self.visits.last_token_s),
            (self.recorded.first_token_s, self.recorded.last_token_s),
        )
        several = steps > 0
        return {
            "ttft_s": (dates[0][0] - arrival, dates[1][0] - arrival),
            "tpot_s": (
                ((dates[0][1] - dates[0][0])[several] / steps[several]),
                ((dates[1][1] - dates[1][0])[several] / steps[several]),
            ),
            "e2e_s": (dates[0][1] - arrival, dates[1][1] - arrival),
        }

    def errors(self) -> dict[str, float]:
        """Signed relative error of the mean and the percentiles of each latency, by metric name."""
        found = {}
        for name, (mine, theirs) in self.latencies().items():
            stem, unit = name.rsplit("_", 1)
            for statistic, error in relative_errors(mine, theirs).items():
                found[f"{stem}_{statistic}_{unit}"] = error
        return found

    def timeline_rms(self) -> dict[str, float]:
        """Root mean square difference of running and waiting requests and of the KV share; none without ticks."""
        if not len(self.recorded.time_s):
            return {}
        pairs = {
            "running": (self.running, self.recorded.running),
            "waiting": (self.waiting, self.recorded.waiting),
            "kv_share": (self.cache_share, self.recorded.cache_share),
        }
        return {name: float(np.sqrt(np.mean((mine - theirs) ** 2))) for name, (mine, theirs) in pairs.items()}


def relative_errors(mine: FloatArray, theirs: FloatArray) -> dict[str, float]:
    """Signed relative errors of the mean and of three percentiles of one latency."""
    found = {"mean": float(mine.mean() / theirs.mean() - 1.0)}
    for percent in (50, 90, 99):
        ratio = np.quantile(mine, percent / 100) / np.quantile(theirs, percent / 100)
        found[f"p{percent}"] = float(ratio - 1.0)
    return found


def replay(
    recorded: RecordedRun,
    profile: LayerProfile,
    blocks: int | Stack,
    host_s: float = 0.0,
    own_blocks: bool | None = None,
) -> Replay:
    """Serve the recorded requests at their recorded arrivals.

    Args:
        recorded: requests and engine settings.
        profile: layer times of the card.
        blocks: of the model: their number where all are alike, else `Stack.of(model)`.
        host_s: host time per step that does not overlap with the card.
        own_blocks: whether a preempted request finds again what is left of the blocks of its own prompt; None where
            the engine reused blocks.  A log of lengths does not say what prompts share with each other; each shares
            all with itself.

    Raises:
        InputError: a profile that is not of such a model, a request larger than the cache.
    """
    steps = ProfiledSteps(profile, blocks, EngineSteps(recorded.graph_sizes, host_s))
    cache = CacheShape(
        recorded.cache_blocks * recorded.policy.block_tokens, 1.0, 0.0, recorded.policy.block_tokens, watermark=0.0
    )
    env = simpy.Environment()
    policy, requests = recorded.policy, recorded.requests
    if recorded.prefix_caching if own_blocks is None else own_blocks:
        policy, requests = replace(policy, prefix_cache=True), _with_own_blocks(requests, policy.block_tokens)
    check_fits(requests, cache)
    server = Server(env, System(policy, cache, {"serve": FixedCost(steps)}), requests, fast=False)
    ticks = np.zeros((len(recorded.time_s), 3))
    env.process(_watch(server, recorded.time_s, ticks))
    env.run()
    server.check_empty()
    running, waiting, used = ticks.T
    return Replay(recorded, server.recorder.visits(), running, waiting, used, server.preemptions)


def check_fits(requests: Requests, cache: CacheShape) -> None:
    """Check that the cache can hold each request alone, up to its last token, which is never cached.

    Raises:
        InputError: the first request that no replay could end.
    """
    room = math.floor(cache.admission_bytes / cache.block_bytes)
    tokens = requests.prompt_tokens + requests.output_tokens - 1
    needed = -(-tokens // cache.block_tokens)
    if (needed > room).any():
        index = int(np.argmax(needed > room))
        raise InputError(
            f"request {index} (in order of arrival) caches {int(tokens[index])} tokens, {int(needed[index])} blocks of "
            f"{cache.block_tokens}; the cache admits {room} blocks"
        )


def _with_own_blocks(requests: Requests, block_tokens: int) -> Requests:
    """The requests with ids for their whole blocks that no two of them share."""
    counts = ((requests.prompt_tokens + requests.output_tokens) // block_tokens).tolist()
    starts = np.concatenate(([0], np.cumsum(counts))).tolist()
    ids = tuple(np.arange(start, start + count, dtype=np.int64) for start, count in zip(starts, counts, strict=False))
    return replace(requests, blocks=ids, block_tokens=block_tokens)


def _watch(server: Server, time_s: FloatArray, ticks: FloatArray) -> Generator[simpy.Event, object, None]:
    """Note the state of the server at the recorded times."""
    shape = server.memory.shape
    for row, due in enumerate(time_s.tolist()):
        yield server.env.timeout(max(0.0, due - server.env.now))
        running = sum(engine.in_service for engine in server.engines)
        used = server.memory.used_blocks * shape.block_bytes / shape.capacity_bytes
        ticks[row] = running, len(server.waiting), used
