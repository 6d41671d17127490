"""How requests are batched, scheduled and mapped to pools at run time."""

from __future__ import annotations

from dataclasses import dataclass

from hydra_dse.policy.emission import ONE_TOKEN, Emission, emission_of

__all__ = ["ONE_TOKEN", "Emission", "Policy", "emission_of"]

BATCHING = ("chunked", "prefill_first", "static")
SCHEDULING = ("fcfs", "sjf", "hrrn", "edf", "least_slack")


@dataclass(frozen=True)
class Policy:
    """The runtime policy of a design.

    Attributes:
        serving: `"colocated"` (one pool runs mixed iterations) or `"disaggregated"` (a prefill and a decode pool).
        batching: `"chunked"` (decode tokens first, the rest of the budget to prompts: Sarathi, vLLM v1) or
            `"prefill_first"` (prefill-only iterations while prompts wait: vLLM v0), or `"static"` (an idle engine
            takes up to `max_batch` waiting requests, which run until the last of them ends; nobody joins).  A
            disaggregated prefill pool batches prompts up to the token budget in any case; static batches are
            formed by its decode pool.
        max_batch: sequences that may be in service at once (colocated: prefilling + decoding; disaggregated: decoding).
        token_budget: tokens of one iteration over all batches in flight.
        scheduling: order of waiting prompts of one priority: `"fcfs"`, `"sjf"` (shortest prompt first), `"hrrn"`
            (longest wait relative to the prompt), `"edf"` (earliest deadline: arrival + the TTFT bound of the class)
            or `"least_slack"` (that deadline less the prompt's own time).
        batches_in_flight: batches that alternate over the die families of a pool (1 = families run in turn).
        memory_watermark: share of cache memory kept free at admission.
        block_tokens: tokens per KV block.
        prefix_cache: keep KV blocks and state checkpoints of requests that have ended in the memory that running
            ones leave free, least recently used out first, and reuse the longest prefix of a prompt.
        state_checkpoint_tokens: distance of the checkpoints of recurrent state; 0 = none, and then a model with
            state reuses nothing.
        host_cache_bytes: memory of the host to which the cache spills; 0 = none.
        host_bytes_per_s: bandwidth of the link over which spilled entries come back.
        max_waiting: requests that may wait for their prompt; one that finds so many is refused.  None = no limit.
        ageing_s: at every multiple of it all waiting requests rise by one priority, so that a request of priority
            `k` is overtaken only by those that come within `(k + 1)·ageing_s` of it.  None = they never rise.
        class_preemption: a waiting request takes slots and memory from requests of lower priority in service,
            newest of the lowest first; these are computed again.
        routing: how finished prompts reach one of several decode engines (`batches_in_flight`): `"shared"` (the first
            that has a free slot takes them from one queue), `"jsq"` (at once to the one with the fewest requests) or
            `"round_robin"`.
        task_map: which dies of a disaggregated design do which work: `"static"` (each pool its own phase), `"elastic"`
            (dies change pools by the number of prompts), `"stealing"` (an idle pool takes the other's work, iteration
            by iteration) or `"fcfs"` (either pool takes the work that waits for longest).
        role_up_prompts: elastic: with so many prompts waiting or under way, decode dies go over to prefill.
        role_down_prompts: elastic: with so few of them, dies go back.
        role_unit_dies: elastic: dies of every die group that change roles together.
        role_units_to_prefill: elastic: units of decode dies that may serve prefill at once.
        role_units_to_decode: elastic: units of prefill dies that may serve decode at once.
        tokens_per_step: probabilities that a decode step of a sequence emits 1, 2, … tokens (speculative decoding,
            several prediction heads).
        verified_positions: positions that a step computes per sequence; None = the most tokens that it may emit.
    """

    serving: str = "disaggregated"
    batching: str = "chunked"
    max_batch: int = 64
    token_budget: int = 2048
    scheduling: str = "fcfs"
    batches_in_flight: int = 1
    memory_watermark: float = 0.01
    block_tokens: int = 16
    prefix_cache: bool = False
    state_checkpoint_tokens: int = 2048
    host_cache_bytes: float = 0.0
    host_bytes_per_s: float = 0.0
    max_waiting: int | None = None
    ageing_s: float | None = None
    class_preemption: bool = False
    routing: str = "shared"
    task_map: str = "static"
    role_up_prompts: int = 4
    role_down_prompts: int = 0
    role_unit_dies: int = 1
    role_units_to_prefill: int = 1
    role_units_to_decode: int = 0
    tokens_per_step: tuple[float, ...] = (1.0,)
    verified_positions: int | None = None

    @property
    def emission(self) -> Emission:
        """Tokens and positions of a decode step.

        Raises:
            InputError: probabilities that are none, or fewer positions than tokens.
        """
        return emission_of(self.tokens_per_step, self.verified_positions)
