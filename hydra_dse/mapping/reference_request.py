"""The request that decisions are made for: what a placement is optimised for, and a cut of scans over unlike dies."""

from __future__ import annotations

from functools import lru_cache

from hydra_dse.mapping.operands import Operands
from hydra_dse.model.operators import Batch, Demand

# A request of medium length in a batch of medium size.
PROMPT_TOKENS = 1024.0
OUTPUT_TOKENS = 256.0
BATCH = 16.0

PROMPT = Batch(
    prefill_tokens=PROMPT_TOKENS,
    prefill_sequences=1.0,
    prefill_pairs=PROMPT_TOKENS**2 / 2,
    prefill_context_tokens=PROMPT_TOKENS,
    emitted_tokens=1.0,
)
"""The iteration that takes the prompt alone."""

STEP = Batch(
    decode_sequences=BATCH,
    decode_context_tokens=BATCH * (PROMPT_TOKENS + OUTPUT_TOKENS / 2),
    emitted_tokens=BATCH,
)
"""A decode step in the middle of the output."""

STEPS_PER_REQUEST = OUTPUT_TOKENS / BATCH
"""Decode steps that a request costs, of those that it takes part in."""


@lru_cache(maxsize=64)
def reference_demands(operands: Operands) -> tuple[dict[int, Demand], ...]:
    """What the operators of a model (by identity) ask for in `PROMPT` and in `STEP`."""
    return tuple(
        {id(operator): operator.demand(batch, operands.precision) for operator in operands.operators}
        for batch in (PROMPT, STEP)
    )
