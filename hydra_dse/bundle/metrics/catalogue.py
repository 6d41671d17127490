"""The catalogue: every metric of the original toolkit under its name and unit, then ours.

Where the original is wrong ours is right under the same name: `memory_transfer_overhead` sees `gpu_memcpy` events, and
`total_trace_time` of TPU traces is in seconds.  Its bandwidths keep their GiB/s and their AllGather shard; the bus
bandwidth in GB/s is `collective_bandwidth_<kind>_gb_per_s`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from hydra_dse.bundle import conventions as words
from hydra_dse.bundle.metrics import communication, compute, families, memory, serving, steps, tpu
from hydra_dse.bundle.metrics.measured import Measured
from hydra_dse.bundle.metrics.registry import TraceMetric, Value, register
from hydra_dse.results.metrics import MAXIMISE, MINIMISE, NEITHER

Functions = Mapping[str, Callable[[Measured], Value]]
_VOLUMES = {"allreduce": ("allreduce",), "allgather": ("allgather",), "reducescatter": ("reducescatter",),
            "alltoall": ("alltoall",), "total": ("allreduce", "allgather", "reducescatter", "alltoall")}  # fmt: skip


def _theirs(name: str, unit: str, category: str, direction: str, definition: str, functions: Functions,
            requires: tuple[str, ...] = (), missing: str = "") -> None:  # fmt: skip
    register(TraceMetric(name, unit, category, direction, definition, functions, requires, True, missing))


def _ours(name: str, unit: str, category: str, direction: str, definition: str, functions: Functions,
          requires: tuple[str, ...] = ()) -> None:  # fmt: skip
    register(TraceMetric(name, unit, category, direction, definition, functions, requires))


def _both(function: Callable[..., Value]) -> dict[str, Callable[[Measured], Value]]:
    """The same definition for an Nsight export and for Chrome traces."""
    return {"nsys": partial(function, kind="nsys"), "json": partial(function, kind="json")}


def _execution() -> None:
    marks = ("step markers",)
    _theirs("avg_step_time", "s", "compute", MINIMISE, "mean duration of the inner steps, mean over ranks",
            {"json_tpu": steps.tpu_step_time_s, "json": steps.step_time_s}, marks)  # fmt: skip
    _theirs("ttft", "s", "serving", MINIMISE, "duration of the first serving iteration, without queueing",
            {"json_tpu": steps.tpu_first_step_s, "json": steps.first_step_s}, (*marks, "phase inference"))  # fmt: skip
    _theirs("tpot", "s", "serving", MINIMISE, "mean duration of the serving iterations after the first",
            {"json_tpu": steps.tpu_later_steps_s, "json": steps.later_steps_s},
            (*marks, "phase inference"))  # fmt: skip
    _theirs("mfu", "%", "compute", MAXIMISE, "100 · FLOPs of a step / (step time · peak)",
            {"json_tpu": steps.tpu_mfu_percent, "json": steps.mfu_percent},
            ("model_arch", "peak", "ProfilerStep#N or *.latency.json"))  # fmt: skip
    _theirs("gpu_step_score", "", "compute", MAXIMISE, "w · G0 / devices + (1 − w) · T0 / step time",
            {"json": steps.step_score}, marks)  # fmt: skip


def _compute() -> None:
    kernels = ("kernels",)
    _theirs("mean_sm_coverage", "%", "compute", MAXIMISE,
            "min(blocks per multiprocessor, 1): weighted by duration (json), plain mean (nsys)",
            {"nsys": compute.nsys_coverage, "json": compute.coverage}, ("'blocks per SM' or grid sizes",))  # fmt: skip
    _theirs("dominant_kernel_concentration", "%", "compute", NEITHER, "largest share of one kernel in all kernel time",
            {**_both(compute.dominant), "json_tpu": compute.tpu_dominant}, kernels)  # fmt: skip
    _theirs("moe_fraction", "%", "compute", NEITHER, "share of kernels named as expert layers", _both(compute.experts),
            kernels)  # fmt: skip
    _theirs("aggregate_gpu_utilization", "%", "compute", MAXIMISE, "time with a kernel over first start to last end",
            _both(compute.utilization), kernels)  # fmt: skip
    _theirs("break_down_steps", "ms", "compute", NEITHER,
            "summed time of kernels named as communication, attention, routing or work of experts, and all others",
            _both(families.break_down_ms), kernels)  # fmt: skip
    _theirs("total_kernel_time", "s", "compute", MINIMISE, "summed kernel time of all ranks",
            _both(compute.kernel_time_s), kernels)  # fmt: skip
    _theirs("total_trace_time", "s", "compute", MINIMISE, "first start to last end over all ranks",
            {**_both(compute.trace_time_s), "json_tpu": steps.tpu_wall_s}, kernels)  # fmt: skip
    _theirs("load_imbalance_ratio", "", "communication", MINIMISE, "longest over shortest busy time of the ranks",
            _both(compute.imbalance), ("kernels of two ranks",))  # fmt: skip


def _memory() -> None:
    copies = ("copies with bytes",)
    _theirs("average_memory_bandwidth", "GB/s", "memory", MAXIMISE,
            "bytes over time of copies; TPU: from copy-start to copy-done by the device's clock",
            {**_both(memory.copy_bandwidth), "json_tpu": tpu.copy_gb_per_s}, copies)  # fmt: skip
    _theirs("memory_transfer_overhead", "%", "memory", MINIMISE, "time of copies that no compute covers over the span",
            {"nsys": memory.nsys_copy_overhead, "json": memory.copy_overhead}, ("kernels or copies",))  # fmt: skip
    _theirs("memory_bound_fraction", "%", "memory", NEITHER,
            "kernels named as streaming (json), or below half coverage (nsys): a heuristic",
            {"nsys": compute.nsys_memory_bound, "json": compute.memory_bound}, ("kernels",))  # fmt: skip
    _theirs("estimated_bandwidth", "GB/s", "memory", MAXIMISE, "bytes accessed by XLA operations over the wall time",
            {"json_tpu": tpu.accessed_gb_per_s}, ("bytes_accessed",))  # fmt: skip


def _communication() -> None:
    kernels = ("communication kernels",)
    _theirs("communication_fraction", "%", "communication", MINIMISE,
            "summed communication over summed kernel time in the inner steps, mean over ranks",
            {"nsys": partial(communication.ratio, kind="nsys"), "json": communication.fraction,
             "json_tpu": tpu.fraction}, ("kernels",))  # fmt: skip
    _theirs("communication_ratio", "%", "communication", MINIMISE, "the same over all ranks and the whole trace",
            {**_both(communication.ratio), "json_tpu": tpu.ratio}, ("kernels",))  # fmt: skip
    _theirs("communication_overhead", "", "communication", MINIMISE, "the same of the first rank",
            {"json": communication.overhead}, ("kernels",))  # fmt: skip
    _theirs("total_communication_time", "s", "communication", MINIMISE,
            "json: union per inner training step, else of the trace, mean over ranks; nsys: sum over devices; TPU: sum "
            "over chips per iteration",
            {"nsys": communication.nsys_total_time_s, "json": communication.total_time_s,
             "json_tpu": tpu.total_time_s}, kernels)  # fmt: skip
    _theirs("compute_comm_overlap", "%", "communication", NEITHER,
            "communication that compute covers over all communication, in the inner steps; says nothing of speed alone",
            {"nsys": communication.nsys_overlap_percent, "json": communication.overlap_percent,
             "json_tpu": tpu.overlap_percent}, kernels)  # fmt: skip
    _theirs("communication_overlap_ratio", "", "communication", NEITHER, "the same over the whole trace, 0 to 1",
            _both(communication.overlap_ratio), kernels)  # fmt: skip
    two = ("NCCL kernels of two ranks",)
    _theirs("straggler", "", "communication", MINIMISE, "(longest − shortest) / longest of the ranks' NCCL time",
            {"json": communication.straggler}, two)  # fmt: skip
    _theirs("straggler_slowdown", "", "communication", MINIMISE, "longest / shortest of the ranks' NCCL time",
            {"json": communication.slowdown}, two)  # fmt: skip
    _theirs("traffic_window", "s", "communication", NEITHER,
            "summed NCCL kernels per rank and RedistributeBackward: AllReduces within it, gathers and scatters "
            "belong to data parallelism (dp), other AllReduces and broadcasts to tensor (tp), sends to pipelines (pp)",
            {"json": families.traffic_window_s}, ("NCCL kernels", "RedistributeBackward of TorchTitan"))  # fmt: skip
    _theirs("coll_call_num", "", "communication", NEITHER, "NCCL kernels of the first rank",
            {"json": communication.calls}, kernels)  # fmt: skip
    _theirs("bandwidth_utilization", "", "communication", MAXIMISE,
            "mean over AllReduces of S (n − 1) / n over 100 GB/s, half of the usual factor",
            {"json": communication.ring_utilization}, ("messages of AllReduces",))  # fmt: skip
    _collectives()


def _collectives() -> None:
    messages = ("'In msg nelems', 'dtype' and 'Group size' of collectives",)
    for kind in ("allgather", "allreduce", "alltoall", "reducescatter"):
        _theirs(f"bandwidth_utilization_{kind}_group_6", "GiB/s", "communication", MAXIMISE,
                f"median bandwidth of {kind} by the bytes a rank puts in",
                {"json": partial(communication.collective_gib_per_s, kind=kind),
                 "json_tpu": partial(tpu.collective_gib_per_s, kind=kind)}, messages)  # fmt: skip
    for kind, kinds in _VOLUMES.items():
        _theirs(f"collective_vol_{kind}_gb", "GB", "communication", MINIMISE,
                f"bytes that the first rank puts into {kind} over the whole trace",
                {"json": partial(communication.volume_gb, kinds=kinds),
                 "json_tpu": partial(tpu.volume_gb, kinds=kinds)}, messages)  # fmt: skip


def _xla() -> None:
    rows: tuple[tuple[str, str, str, str, Callable[[Measured], Value]], ...] = (
        ("wall_time_s", "s", MINIMISE, "first start to last end of the devices' events", steps.tpu_wall_s),
        ("total_compute_time_s", "s", MINIMISE, "summed compute operations", tpu.compute_s),
        ("total_comm_time_s", "s", MINIMISE, "summed collective operations", tpu.communication_s),
        ("avg_comm_kernel_time_s", "s", MINIMISE, "mean collective operation", tpu.mean_communication_s),
        ("allreduce_comm_time_s", "s", MINIMISE, "summed all-reduces", tpu.allreduce_s),
        ("compute_utilization_proxy", "", MAXIMISE, "summed compute over wall time", tpu.compute_utilization),
        ("num_comm_kernels", "", NEITHER, "collective operations", tpu.communication_count),
        ("avg_comm_bandwidth_GBps", "GB/s", MAXIMISE, "(n − 1) · bytes / time, n times too high",
         tpu.mean_bandwidth_gb_per_s),
        ("hockney_alpha_s", "s", MINIMISE, "latency of a ring step of AllReduce", lambda b: tpu.hockney(b)[0]),
        ("hockney_beta_s_per_byte", "s/B", MINIMISE, "time of a byte of AllReduce", lambda b: tpu.hockney(b)[1]),
        ("hockney_inverse_beta_Bps", "B/s", MAXIMISE, "bandwidth of AllReduce", tpu.hockney_bandwidth),
        ("total_model_flops_from_args", "FLOP", NEITHER, "summed model_flops", tpu.model_flops),
        ("achieved_flops_from_trace_json", "FLOP/s", MAXIMISE, "model_flops over their time", tpu.achieved_flops_per_s),
        ("comm_kernel_breakdown_tpu", "us", MINIMISE, "summed time of each collective", tpu.breakdown_us),
    )  # fmt: skip
    for name, unit, direction, definition, function in rows:
        category = "compute" if "compute" in name or "flops" in name or name == "wall_time_s" else "communication"
        _theirs(name, unit, category, direction, definition, {"json_tpu": function}, ("XLA operations of a device",))


def _side_files() -> None:
    record = ("bench_results.jsonl",)
    for name, unit, direction, key in (
        ("ttft_group_6", "ms", MINIMISE, "median_ttft_ms"),
        ("tpot_group_6", "ms", MINIMISE, "median_tpot_ms"),
    ):
        _theirs(name, unit, "serving", direction, f"{key} of SGLang's bench_results.jsonl",
                {"card": partial(serving.bench_record, key=key)}, record)  # fmt: skip
    _theirs("throughput_group_6", "tokens/s", "serving", MAXIMISE, "output tokens over duration of bench_results.jsonl",
            {"card": serving.bench_throughput}, record)  # fmt: skip
    for name, unit, category, why in (
        ("scale_up_bw_utility", "%", "communication",
         "the original runs ASTRA-sim in Docker on the serialised trace; see `hydra-dse whatif`, which keeps overlap"),
        ("bandwidth_utilization_peertopeer_group_6", "%", "communication",
         "needs GPU_METRICS sampled by Nsight Systems and model ranges of three model families"),
        ("kernel_compute_time_group_6", "s", "compute", "is defined by kernel names of DeepSeek in Nsight exports"),
    ):  # fmt: skip
        _theirs(name, unit, category, NEITHER, "not computed here", {}, (), why)


def _additions() -> None:
    kernels = ("kernels", "communication kernels")
    _ours("exposed_communication_s", "s", "communication", MINIMISE,
          "communication that no compute covers, per inner step, mean over ranks",
          {"json": communication.exposed_s}, kernels)  # fmt: skip
    _ours("exposed_communication_share", "", "communication", MINIMISE, "the same over the step time",
          {"json": communication.exposed_share}, kernels)  # fmt: skip
    _ours("exposed_communication_by_kind_s", "s", "communication", MINIMISE, "the same of each collective, first rank",
          {"json": communication.exposed_by_kind}, kernels)  # fmt: skip
    for kind in communication.FACTORS:
        _ours(f"collective_bandwidth_{kind}_gb_per_s", "GB/s", "communication", MAXIMISE,
              f"median bus bandwidth of {kind} over all ranks",
              {"json": partial(communication.bus_gb_per_s, kind=kind)}, ("messages of collectives",))  # fmt: skip
    for category, noun in ((words.LINK, "link"), (words.MEMORY, "memory")):
        group = "communication" if category == words.LINK else "memory"
        needs = (f"events of category '{category}' with bytes",)
        _ours(f"{noun}_bandwidth_gb_per_s", "GB/s", group, MAXIMISE, f"bytes of each {noun} a second",
              {"json": partial(memory.bandwidth, category=category)}, needs)  # fmt: skip
        _ours(f"{noun}_utilization_max", "", group, NEITHER, f"share of its peak that the busiest {noun} carries",
              {"json": partial(memory.utilization_max, category=category)}, needs)  # fmt: skip
    _ours("implied_mfu", "", "compute", MAXIMISE, "MFU that card and steps imply together; above 1 is impossible",
          {"json": steps.implied_mfu}, ("step markers", "model_arch", "peak"))  # fmt: skip
    _ours("implied_mfu_of_compute_time", "", "compute", MAXIMISE, "the same over the time in which something computes",
          {"json": steps.implied_mfu_of_compute_time}, ("kernels", "step markers", "model_arch", "peak"))  # fmt: skip
    _ours("recorded_flops_utilization", "", "compute", MAXIMISE,
          "FLOPs that kernels record over span and peak; above 1 is impossible",
          {"json": steps.recorded_flops_utilization}, ("args.flops of kernels", "peak"))  # fmt: skip
    _requests()


def _requests() -> None:
    needs = ("instants of requests",)
    for latency in serving.LATENCIES:
        for statistic in serving.STATISTICS:
            function = partial(serving.latency_s, name=latency, statistic=statistic)
            _ours(f"{latency}_{statistic}_s", "s", "serving", MINIMISE, f"{statistic} of {latency}, queueing included",
                  {"json": function}, needs)  # fmt: skip
    slo = (*needs, "x_chiplet.slo")
    rows: tuple[tuple[str, str, str, str, str, Callable[[Measured], Value], tuple[str, ...]], ...] = (
        ("slo_attainment", "", "serving", MAXIMISE, "share of requests that met the SLO", serving.slo_attainment, slo),
        ("goodput_requests_per_s", "req/s", "serving", MAXIMISE, "requests that met the SLO per second",
         serving.goodput, slo),
        ("throughput_tokens_per_s", "tokens/s", "serving", MAXIMISE,
         "output tokens that the trace counts per second, else those of completed requests", serving.tokens_per_s,
         needs),
        ("throughput_requests_per_s", "req/s", "serving", MAXIMISE, "completed requests per second",
         serving.requests_per_s, needs),
        ("energy_j", "J", "energy", MINIMISE, "power integrated over the trace", serving.energy_j, ("power",)),
        ("power_w", "W", "energy", MINIMISE, "energy over the span of the trace", serving.power_w, ("power",)),
        ("energy_j_per_token", "J", "energy", MINIMISE, "energy over output tokens", serving.energy_per_token,
         ("power", *needs)),
        ("cost_usd_per_million_tokens", "USD", "energy", MINIMISE, "cost of the time of a million output tokens",
         serving.cost_per_million_tokens, ("x_chiplet.usd_per_hour", *needs)),
    )  # fmt: skip
    for name, unit, category, direction, definition, function_of, requires in rows:
        _ours(name, unit, category, direction, definition, {"json": function_of}, requires)


for _group in (_execution, _compute, _memory, _communication, _xla, _side_files, _additions):
    _group()
