"""Names that the writer of our traces and the readers of any trace share: one place, no code.

The kernels, markers and collectives follow the Kineto flavour that the CCL-Bench toolkit, PyTorch HTA and the Chakra
converter read (`/traceEvents` of a Chrome JSON).  What a chiplet package adds (requests, links, memories, power) uses
categories and counters that those tools skip.
"""

from __future__ import annotations

KERNEL, MEMCPY, MEMSET = "kernel", "gpu_memcpy", "gpu_memset"
ANNOTATION, PYTHON = "user_annotation", "python_function"
TRAINING_STEP, SERVING_STEP, BATCH_STEP = "ProfilerStep#", "execute_context_", "run_batch"
COLLECTIVE_PREFIX = "ncclDevKernel_"

LINK = "link"
"""Category of `X` events of bytes crossing a link; `args`: `link` (its name), `bytes`, `peak_bytes_per_s`."""

MEMORY = "memory"
"""Category of `X` events of bytes of a memory stack; `args`: `memory` (its name), `bytes`, `peak_bytes_per_s`."""

REQUEST = "request"
"""Category of the `i` instants of a request; `args`: `request` (its number)."""
ARRIVAL, FIRST_TOKEN, LAST_TOKEN = "arrival", "first_token", "last_token"
"""Names of those instants; `last_token` also has `args.output_tokens`, and `arrival` may have `args.prompt_tokens`."""

POWER = "power"
"""Name of the `C` counters of power; every number in `args` is in watts and holds until the next event."""

TOKENS = "output_tokens"
"""Name of the `C` counters of output tokens emitted so far; the numbers in `args` add up, and never fall."""

BLOCK = "x_chiplet"
"""Key of the one block of ours in a workload card."""

DTYPE_BYTES = {
    **dict.fromkeys(("Double", "Float64", "Int64", "Long"), 8),
    **dict.fromkeys(("Float", "Float32", "Int", "Int32"), 4),
    **dict.fromkeys(("Half", "Float16", "BFloat16", "BF16", "Int16", "Short"), 2),
    **dict.fromkeys(("Int8", "Byte", "UInt8", "Float8_e4m3fn", "Float8_e5m2"), 1),
}
"""Bytes of an element by the name that a collective's `dtype` carries."""
