"""Names of events and tracks that only our traces have; what readers of any trace know is in `bundle.conventions`."""

from __future__ import annotations

SEGMENT = "segment"
"""Category of the `X` events that an iteration falls into, one after the other: where its time goes.

`args.binding`: the resource that sets the length; `args.iteration`: number of the iteration.
"""
OPERATOR = "operator"
"""Category of the `X` events around the segments of one operator."""
WEIGHTS = "weights"
"""Category of the `X` events of weights that stream in (no copies: a kernel reads them)."""

DEPENDENCY = "dependency"
"""Category of the `s` and `f` flows from an operator to the one that waited for it."""

HOST, WAIT, LAUNCH, COMPUTE, WRITES, DRAIN = "host", "wait", "launch", "compute", "wait for writes", "drain"
GATHER, REDUCE, MEMORY = "before", "after", "memory"

COLLECTIVES = {
    "gather": ("ncclDevKernel_AllGather_RING_LL", "_allgather_base"),
    "reduce": ("ncclDevKernel_ReduceScatter_Sum_RING_LL", "_reduce_scatter_base"),
    "dispatch": ("ncclDevKernel_SendRecv", "all_to_allv"),
    "combine": ("ncclDevKernel_SendRecv", "all_to_allv"),
    "forward": ("ncclDevKernel_SendRecv", "sendrecv"),
    "stage": ("ncclDevKernel_SendRecv", "sendrecv"),
}
"""Kernel name and `Collective name` by the kind of a transfer of activations: the residual stream is sharded over the
dies of a pool, so it is gathered before a column-parallel operator and reduce-scattered after a row-parallel one."""

DTYPES = {4.0: "Float", 2.0: "BFloat16", 1.0: "Float8_e4m3fn"}
"""Name of the activations' format by the bytes of an element."""

ENGINES, MEMORIES, LINKS, REQUESTS, COUNTERS = 1000, 1001, 1002, 1003, 1004
"""Process ids of the package's own tracks; ranks are 0, 1, ….  They stand in rank 0 and in the timeline."""
PROCESSES = {ENGINES: "engines", MEMORIES: "memory", LINKS: "links", REQUESTS: "requests", COUNTERS: "package"}
