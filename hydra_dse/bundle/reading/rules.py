"""What a trace must have so that the tools that exist can read it: one rule a field, with who needs it.

Source of all rows but those marked `ours`: CCL-Bench 1.0 (arXiv 2605.06544), github:cornell-sysphotonics/ccl-bench
at 1d257f0, tools/ and simulation/, read and run; HTA and Perfetto as named there.
"""

from __future__ import annotations

from dataclasses import dataclass

SOURCE = "github:cornell-sysphotonics/ccl-bench@1d257f0 tools/"
OURS = "ours: what HTA, Perfetto and the replay of dependencies assume"


@dataclass(frozen=True)
class Rule:
    """One thing that a trace must have.

    Attributes:
        name: short, for messages and JSON.
        where: event or place.
        value: what is accepted.
        needed_by: tools.
        applies: kind of trace: `json`, `json_tpu`, `nsys` or `side` (a file beside the trace that may be absent).
        source: where that is known from.
    """

    name: str
    where: str
    value: str
    needed_by: str
    applies: str = "json"
    source: str = SOURCE


RULES = (
    Rule("card", "folder", "a card <folder>.yaml that names the traces' kind", "all"),
    Rule("traceEvents", "top level", "an object whose traceEvents is a list", "all"),
    Rule("ph", "event", '"X" for all that lasts; B/E pairs are not read', "all"),
    Rule("cat", "event", "kernel, user_annotation, gpu_memcpy, …: at least one kernel", "all GPU tools"),
    Rule("name", "event", "text", "all"),
    Rule("ts, dur", "complete event", "numbers in µs, dur ≥ 0; text is not accepted", "all"),
    Rule("pid", "kernel", "whole number, the same for all kernels of a rank", "utilization-group-21, straggler"),
    Rule("tid", "complete event", "whole number; concurrent streams on different ones", "Chakra export, Perfetto"),
    Rule("Collective name", "communication kernel", "text that tells the collective", "volume, alltoall, Chakra"),
    Rule("In msg nelems", "communication kernel", "whole number > 0", "bandwidth, volume, Chakra"),
    Rule("Out msg nelems", "communication kernel", "whole number", "Chakra fallback"),
    Rule("dtype", "communication kernel", "BFloat16, Half, Float, …", "bandwidth, volume, Chakra"),
    Rule("Group size", "communication kernel", "whole number > 0", "bandwidth"),
    Rule("Process Group Ranks", "communication kernel", 'text "[0, 1]"', "bandwidth tier, Chakra groups"),
    Rule("External id", "communication kernel", "equal on all ranks of a collective, or absent", "Chakra export"),
    Rule("stream", "kernel", "whole number", "Chakra export, HTA"),
    Rule("blocks per SM", "compute kernel", "number", "mean_sm_coverage"),
    Rule("bytes", "gpu_memcpy", "whole number ≥ 0", "average_memory_bandwidth"),
    Rule("ProfilerStep#N", "user_annotation of training", "at least 3, N increasing in time", "step metrics"),
    Rule(
        "execute_context_*", "user_annotation of serving", "at least 4, one an iteration", "step, ttft, tpot, overlap"
    ),
    Rule(
        "nesting", "complete events of one pid and tid", "lie inside one another or apart", "HTA, Perfetto", source=OURS
    ),
    Rule("matched collectives", "ranks of a group", "the same collectives in the same order", "replay", source=OURS),
    Rule("monotone time", "kernels and copies of a track", "starts never run back in the file", "replay", source=OURS),
    Rule(
        "latency file", "side file in a sub-folder", '<any>.latency.json {"avg_latency": s}', "mfu (inference)", "side"
    ),
    Rule("hlo_category and others", "TPU operation", "of XLA profiler traces", "json_tpu tools", "json_tpu"),
    Rule("$core.py:331 step", "TPU host event", "of XLA profiler traces", "json_tpu step tools", "json_tpu"),
    Rule("CUPTI tables", "SQLite", "of Nsight Systems exports", "nsys tools", "nsys"),
)
