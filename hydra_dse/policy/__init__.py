"""How requests are batched, scheduled and mapped to pools at run time."""

from __future__ import annotations

from dataclasses import dataclass

SERVING = ("colocated", "disaggregated")
BATCHING = ("chunked", "prefill_first")
SCHEDULING = ("fcfs", "sjf")


@dataclass(frozen=True)
class Policy:
    """The runtime policy of a design.

    Attributes:
        serving: `"colocated"` (one pool runs mixed iterations) or `"disaggregated"` (a prefill and a decode pool).
        batching: `"chunked"` (decode tokens first, the rest of the budget to prompts: Sarathi, vLLM v1) or
            `"prefill_first"` (prefill-only iterations while prompts wait: vLLM v0).  A disaggregated prefill
            pool batches prompts up to the token budget either way.
        max_batch: sequences that may be in service at once (colocated: prefilling + decoding; disaggregated: decoding).
        token_budget: tokens of one iteration over all batches in flight.
        scheduling: order of waiting prompts: `"fcfs"` or `"sjf"` (shortest prompt first).
        batches_in_flight: batches that alternate over the die families of a pool (1 = families run in turn).
        memory_watermark: share of cache memory kept free at admission.
        block_tokens: tokens per KV block.
        prefix_cache: keep KV blocks and state checkpoints of requests that have ended in the memory that running
            ones leave free, least recently used out first, and reuse the longest prefix of a prompt.
        state_checkpoint_tokens: distance of the checkpoints of recurrent state; 0 = none, and then a model with
            state reuses nothing.
        host_cache_bytes: memory of the host to which the cache spills; 0 = none.
        host_bytes_per_s: bandwidth of the link over which spilled entries come back.
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
