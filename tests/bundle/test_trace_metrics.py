"""Metrics of small traces whose values follow from a few numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bundle.pieces import CARD, changed, collective, span, step, write_bundle
from hydra_dse.bundle.metrics import Measured, TraceMetric, Unavailable, evaluate, measure, metrics, registry
from hydra_dse.bundle.metrics.families import family
from hydra_dse.bundle.metrics.intervals import touching, union
from hydra_dse.errors import InputError

Events = list[dict[str, Any]]


def values(folder: Path) -> dict[str, float]:
    return evaluate(measure(folder)).values


def reason(folder: Path, name: str) -> str:
    return evaluate(measure(folder), (name,)).unavailable[name]


INTERVALS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 12)), max_size=12)


def cells(intervals: list[tuple[int, int]]) -> set[int]:
    """Unit cells that intervals cover: what a union is, by counting."""
    return {cell for start, length in intervals for cell in range(start, start + length)}


def columns(intervals: list[tuple[int, int]]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    start = np.array([start for start, _ in intervals], dtype=float)
    return start, start + np.array([length for _, length in intervals], dtype=float)


@settings(max_examples=100, deadline=None)
@given(INTERVALS, INTERVALS, st.integers(0, 50), st.integers(0, 20))
def test_unions_and_intersections_measure_what_counting_cells_gives(
    left: list[tuple[int, int]], right: list[tuple[int, int]], low: int, width: int
) -> None:
    one, other = union(*columns(left)), union(*columns(right))
    both = one.intersect(other)
    assert one.length == len(cells(left))
    assert both.length == len(cells(left) & cells(right))
    window = np.array([float(low)]), np.array([float(low + width)])
    assert both.within(*window) == len(cells(left) & cells(right) & set(range(low, low + width)))


@settings(max_examples=100, deadline=None)
@given(INTERVALS, st.integers(0, 50), st.integers(0, 20))
def test_touching_sums_the_intervals_with_a_part_in_the_window(
    intervals: list[tuple[int, int]], low: int, width: int
) -> None:
    start, end = columns(intervals)
    found = touching(start, end, end - start, np.array([float(low)]), np.array([float(low + width)]))
    assert found == sum(length for at, length in intervals if at + length > low and at < low + width)


def test_a_copy_that_compute_covers_is_no_overhead(tmp_path: Path) -> None:
    copy = span("Memcpy HtoD", 50, 100, cat="gpu_memcpy", args={"bytes": 1000})
    found = values(write_bundle(tmp_path / "b", [span("gemm", 0, 100), copy]))
    assert found["memory_transfer_overhead"] == pytest.approx(100 * 50 / 150)
    assert found["average_memory_bandwidth"] == pytest.approx(1000 / 100e-6 / 1e9)


def test_communication_does_not_cover_a_copy(tmp_path: Path) -> None:
    copy = span("Memcpy HtoD", 50, 100, cat="gpu_memcpy", args={"bytes": 1000})
    found = values(write_bundle(tmp_path / "b", [collective("AllReduce", 0, 200, 8), copy, span("gemm", 200, 100)]))
    assert found["memory_transfer_overhead"] == pytest.approx(100 * 100 / 300)


def test_higher_overlap_can_leave_more_communication_exposed(tmp_path: Path) -> None:
    def ranks(name: str, talk: float, hidden: float) -> dict[str, float]:
        steps = [step(i, i * 1000.0, 1000.0) for i in range(4)]
        works = [span("gemm", i * 1000.0, 400) for i in range(4)]
        talks = [collective("AllReduce", i * 1000.0 + 400 - hidden, talk, 1000) for i in range(4)]
        return values(write_bundle(tmp_path / name, [*steps, *works, *talks]))

    slow, fast = ranks("slow", 500, 200), ranks("fast", 100, 10)
    assert (slow["compute_comm_overlap"], fast["compute_comm_overlap"]) == pytest.approx((40, 10))
    assert (slow["exposed_communication_s"], fast["exposed_communication_s"]) == pytest.approx((300e-6, 90e-6))
    assert slow["exposed_communication_share"] == pytest.approx(0.3)


def test_bus_bandwidth_is_the_same_for_an_allgather_and_the_reduce_scatter_of_its_tensor(tmp_path: Path) -> None:
    events = [collective("AllGather", 0, 100, 1000, out=2000), collective("ReduceScatter", 200, 100, 2000, out=1000)]
    found = values(write_bundle(tmp_path / "b", events))
    gather, scatter = (found[f"collective_bandwidth_{kind}_gb_per_s"] for kind in ("allgather", "reducescatter"))
    assert gather == scatter == pytest.approx(4000 * 0.5 / 100e-6 / 1e9)


def instants(number: int, arrival: float, first: float, last: float, tokens: int) -> Events:
    rows = (("arrival", arrival, {}), ("first_token", first, {}), ("last_token", last, {"output_tokens": tokens}))
    return [
        {"ph": "i", "cat": "request", "name": name, "ts": at * 1e6, "pid": 0, "args": {"request": number, **more}}
        for name, at, more in rows
    ]


BLOCK = "x_chiplet: {slo: {ttft_s: 0.5, tpot_s: 0.1, percentile: 0.9}, usd_per_hour: 36, power_w: 100}\n"


@pytest.fixture
def served(tmp_path: Path) -> Path:
    """Three requests: one in time, one whose first token is late, one of a single token in time."""
    events = [*instants(0, 0, 0.4, 1.4, 11), *instants(1, 1, 2, 4, 41), *instants(2, 2, 2.1, 2.1, 1)]
    return write_bundle(tmp_path / "served", events, card=CARD + BLOCK)


def test_latencies_of_requests_count_from_their_arrival(served: Path) -> None:
    found = values(served)
    assert found["ttft_mean_s"] == pytest.approx((0.4 + 1.0 + 0.1) / 3)
    assert found["ttft_p50_s"] == pytest.approx(0.4)
    assert found["tpot_mean_s"] == pytest.approx((0.1 + 0.05) / 2)
    assert found["e2e_p99_s"] == pytest.approx(1.4 + 0.98 * 1.6)


def test_slo_energy_and_cost_of_requests(served: Path) -> None:
    found = values(served)
    assert found["slo_attainment"] == pytest.approx(2 / 3)
    assert found["goodput_requests_per_s"] == pytest.approx(2 / 4)
    assert found["throughput_tokens_per_s"] == pytest.approx(53 / 4)
    assert found["energy_j"] == pytest.approx(400)
    assert found["energy_j_per_token"] == pytest.approx(400 / 53)
    assert found["cost_usd_per_million_tokens"] == pytest.approx(36 * 4 / 3600 / 53 * 1e6)


def test_requests_that_the_trace_cuts_do_not_count_and_a_warning_says_so(tmp_path: Path) -> None:
    events = [*instants(0, 0, 0.4, 1.4, 11), *instants(1, 1, 2, 4, 41)[1:], *instants(2, 2, 3, 9, 5)[:1]]
    found = evaluate(measure(write_bundle(tmp_path / "b", events)))
    assert found.values["e2e_mean_s"] == pytest.approx(1.4)
    assert found.warnings == ("2 requests lie only partly in the trace and count in no latency, SLO or throughput",)


def test_power_counters_are_integrated_over_the_trace(tmp_path: Path) -> None:
    power = [{"ph": "C", "name": "power", "ts": at, "args": {"a": watts, "b": 1}} for at, watts in ((0, 9), (100, 19))]
    found = values(write_bundle(tmp_path / "b", [span("gemm", 0, 400), *power]))
    assert found["energy_j"] == pytest.approx((10 * 100 + 20 * 300) / 1e6)
    assert found["power_w"] == pytest.approx(17.5)


def test_links_and_memories_have_a_bandwidth_each(tmp_path: Path) -> None:
    def carried(category: str, name: str, size: int) -> dict[str, Any]:
        return span("x", 0, 10, cat=category, args={category: name, "bytes": size, "peak_bytes_per_s": 1e10})

    events = [
        span("gemm", 0, 100),
        carried("link", "a-b", 500_000),
        carried("link", "b-c", 10),
        carried("memory", "m", 9),
    ]
    found = values(write_bundle(tmp_path / "b", events))
    assert found["link_bandwidth_gb_per_s@a-b"] == pytest.approx(500_000 / 100e-6 / 1e9)
    assert found["link_utilization_max"] == pytest.approx(0.5)
    assert found["memory_bandwidth_gb_per_s@m"] == pytest.approx(9 / 100e-6 / 1e9)


def test_work_that_the_devices_cannot_do_in_the_time_is_a_warning(tmp_path: Path) -> None:
    """Sixteen iterations do the work of sixteen output tokens; a quarter of the time something computes."""
    steps = [step(i, i * 10.0, 10.0) for i in range(16)]
    found = evaluate(measure(write_bundle(tmp_path / "b", [*steps, span("gemm", 0, 40)])))
    flops = (2 * (8030261248 - 1050673152) + 4 * 32 * 32 * 128 * 128) * 4 * 128
    assert found.values["implied_mfu"] == pytest.approx(flops / (160e-6 * 2 * 312e12))
    assert found.values["implied_mfu_of_compute_time"] == pytest.approx(flops / (40e-6 * 2 * 312e12))
    assert sum("contradict each other" in warning for warning in found.warnings) == 2


def test_a_part_of_a_serving_batch_implies_no_mfu(tmp_path: Path) -> None:
    folder = write_bundle(tmp_path / "b", [*(step(i, i * 10.0, 10.0) for i in range(4)), span("gemm", 0, 40)])
    assert reason(folder, "implied_mfu") == "the trace shows 4 iterations of a batch that takes 16 (output_len)"


def test_flops_that_kernels_record_are_held_against_span_and_peak(tmp_path: Path) -> None:
    events = [span("gemm", 0, 50, args={"flops": 3.12e9}), span("gemm", 50, 50, args={"flops": 3.12e9})]
    found = values(write_bundle(tmp_path / "b", events, events))
    assert found["recorded_flops_utilization"] == pytest.approx(4 * 3.12e9 / (100e-6 * 2 * 312e12))


@pytest.mark.parametrize(
    ("name", "pairs", "said"),
    [
        ("mfu", (("nvidia_a100", "own_chip"),), "no peak is known for the card's device 'own_chip'"),
        ("mfu", (("num_layers: 32", "num_layers: x"),), "no number workload.model.model_arch.num_layers"),
        ("ttft", (("phase: inference", "phase: serving"),), "only 'inference' has it"),
        ("tpot", (("output_len: 16", "output_len: 1"),), "no token after the first"),
        ("ttft", (), "no markers of serving iterations"),
        ("slo_attainment", (), "no instants of requests"),
        ("mean_sm_coverage", (), "'blocks per SM'"),
        ("load_imbalance_ratio", (), "one rank only"),
        ("wall_time_s", (), "is defined for json_tpu; the bundle has json"),
        ("scale_up_bw_utility", (), "whatif"),
    ],
)
def test_a_missing_input_is_named(name: str, pairs: tuple[tuple[str, str], ...], said: str, tmp_path: Path) -> None:
    assert said in reason(write_bundle(tmp_path / "b", [span("gemm", 0, 10)], card=changed(*pairs)), name)


def test_a_trace_of_the_host_alone_says_so(tmp_path: Path) -> None:
    folder = write_bundle(tmp_path / "b", [span("aten::mm", 0, 10, cat="cpu_op")])
    assert "a trace of the host alone" in reason(folder, "communication_ratio")


def test_a_card_that_names_an_absent_trace_says_so(tmp_path: Path) -> None:
    folder = write_bundle(tmp_path / "b", card=changed(("- json", "- nsys")))
    assert reason(folder, "total_kernel_time") == "no trace of kind nsys or json in the folder; the card names nsys"


def test_metrics_of_traces_alone_need_no_card(tmp_path: Path) -> None:
    folder = write_bundle(tmp_path / "b", [span("gemm", 0, 10)], card=None)
    assert values(folder)["total_kernel_time"] == pytest.approx(10e-6)
    assert "no readable card" in reason(folder, "mfu")


def test_gzipped_ranks_are_read_and_plain_ones_come_first(tmp_path: Path) -> None:
    import gzip

    folder = write_bundle(tmp_path / "b", [span("gemm", 0, 10)])
    (folder / "rank0_trace.json.gz").write_bytes(gzip.compress(b'{"traceEvents": []}'))
    plain = (folder / "rank0_trace.json").read_bytes()
    (folder / "rank1_trace.json.gz").write_bytes(gzip.compress(plain))
    assert values(folder)["total_kernel_time"] == pytest.approx(20e-6)


def test_ranks_are_ordered_by_number(tmp_path: Path) -> None:
    folder = write_bundle(tmp_path / "b", *([span("gemm", 0, 1.0 + rank)] for rank in range(11)))
    assert [file.name for file in measure(folder).folder.ranks][-2:] == ["rank9_trace.json", "rank10_trace.json"]


def test_events_that_make_no_sense_are_left_out_and_counted(tmp_path: Path) -> None:
    bad = [span("gemm", 0, -1), span("gemm", float("nan"), 1), {**span("gemm", 0, 1), "ts": "0"}, 3]
    found = evaluate(measure(write_bundle(tmp_path / "b", [*bad, span("gemm", 0, 10)])))  # type: ignore[list-item]
    assert found.values["total_kernel_time"] == pytest.approx(10e-6)
    assert found.warnings == (
        "rank0_trace.json: 3 events left out: no time or duration",
        "rank0_trace.json: 1 events left out: not an object",
    )


VALUE = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just([]) | st.just({"a": 1})


@pytest.mark.slow
@settings(max_examples=50, deadline=None)
@given(st.data())
def test_no_event_makes_a_metric_fail(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    good = [
        step(0, 0, 10), span("gemm", 0, 5), collective("AllReduce", 3, 5, 8), *instants(0, 0, 1, 2, 3),
        span("Memcpy", 1, 1, cat="gpu_memcpy", args={"bytes": 5}),
        {"ph": "C", "name": "power", "ts": 1, "args": {"w": 3}},
        span("x", 0, 1, cat="link", args={"link": "a", "bytes": 5, "peak_bytes_per_s": 9}),
    ]  # fmt: skip
    for _ in range(data.draw(st.integers(1, 6))):
        event = data.draw(st.sampled_from(good))
        inner = event["args"] if isinstance(event.get("args"), dict) and data.draw(st.booleans()) else event
        if inner:
            inner[data.draw(st.sampled_from(sorted(inner)))] = data.draw(VALUE)
    folder = write_bundle(tmp_path_factory.mktemp("x") / "b", good)
    result = evaluate(measure(folder))
    assert all(np.isfinite(value) for value in result.values.values())
    assert {name.partition("@")[0] for name in (*result.values, *result.unavailable)} >= set(metrics())


def kernel_count(bundle: Measured) -> float:
    return float(sum(len(rank.trace.kernels) for rank in bundle.ranks("json")))


def broken(bundle: Measured) -> float:
    raise KeyError("oh")


class Point:
    """An entry point of another package."""

    def __init__(self, name: str, loaded: object) -> None:
        self.name, self.value, self._loaded = name, f"other:{name}", loaded

    def load(self) -> object:
        return self._loaded


def other(monkeypatch: pytest.MonkeyPatch, *loaded: object) -> None:
    points = [Point(f"p{number}", one) for number, one in enumerate(loaded)]
    monkeypatch.setattr(registry, "entry_points", lambda group: points if group == "hydra_dse.metrics" else [])


def metric(name: str, function: Any, category: str = "compute") -> TraceMetric:
    return TraceMetric(name, "1", category, "neither", "for a test", {"json": function})


def test_another_package_adds_metrics_through_its_entry_points(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    other(monkeypatch, metric("kernel_count", kernel_count), [metric("other_broken", broken)])
    found = evaluate(measure(write_bundle(tmp_path / "b", [span("gemm", 0, 1)])))
    assert found.values["kernel_count"] == 1
    assert found.unavailable["other_broken"] == "failed: KeyError: 'oh'"


@pytest.mark.parametrize(
    ("loaded", "said"),
    [
        (metric("mfu", kernel_count), "takes a name that is taken"),
        (metric("x", kernel_count, "computing"), "did you mean 'compute'"),
        ("text", "is no TraceMetric and no list of them"),
    ],
)
def test_a_wrong_metric_of_another_package_is_one_message(
    loaded: object, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    other(monkeypatch, loaded)
    with pytest.raises(InputError, match=said):
        metrics()


def test_every_metric_of_ours_is_in_the_terms_of_the_registry() -> None:
    for one in metrics().values():
        registry.check(one, "ours")
        assert one.functions or one.missing
        assert one.definition


def test_an_unknown_metric_is_refused_with_a_suggestion(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="did you mean 'ttft'"):
        evaluate(measure(write_bundle(tmp_path / "b", [])), ("tttft",))


def test_unavailable_is_no_fault_of_the_program() -> None:
    assert not issubclass(Unavailable, InputError)


def xla(name: str, category: str, start: float, duration: float, device: int = 0, **more: Any) -> dict[str, Any]:
    arguments = {"hlo_category": category, "device_duration_ps": str(int(duration * 1e6)), **more}
    return {"ph": "X", "name": name, "pid": device, "tid": 0, "ts": start, "dur": duration, "args": arguments}


@pytest.fixture
def tpu(tmp_path: Path) -> Path:
    """Two devices; five AllReduces of two sizes that follow 2 µs + 1 ns/B · S / 2 exactly; engine steps of the host."""
    names = [{"ph": "M", "name": "process_name", "pid": d, "args": {"name": f"/device:TPU:{d}"}} for d in range(2)]
    events: Events = [*names, {"ph": "M", "name": "process_name", "pid": 9, "args": {"name": "host"}}]
    for device in range(2):
        events.append(xla("fusion.1", "fusion", 0, 100, device, model_flops="31200000000"))
        for number, size in enumerate((1000, 1000, 3000, 3000, 3000)):
            at = 90.0 + 20 * number
            shape = f"bf16[{size // 2}]{{0}}"
            time = 2 * (2 + 1e-3 * size / 2)
            events.append(
                xla("all-reduce.7", "all-reduce", at, time, device, bytes_accessed=size, shape_with_layout=shape)
            )
    events += [
        {"ph": "X", "name": "$core.py:331 step", "pid": 9, "ts": at, "dur": 70.0 + at / 100} for at in (0, 80, 200)
    ]
    card = changed(("- json", "- json_tpu"), ("nvidia_a100", "tpu_v6e"))
    folder = write_bundle(tmp_path / "tpu", card=card)
    (folder / "host.trace.json").write_text(json.dumps({"displayTimeUnit": "ns", "traceEvents": events}))
    return folder


def test_metrics_of_a_tpu_trace(tpu: Path) -> None:
    found = values(tpu)
    communication = (2 * (2 * 2.5) + 3 * (2 * 3.5)) * 1e-6
    assert found["avg_step_time"] == pytest.approx(70.8e-6)
    assert found["ttft"] == pytest.approx(70e-6)
    assert found["total_comm_time_s"] == pytest.approx(2 * communication)
    assert found["total_communication_time"] == pytest.approx(2 * communication / 4)
    assert found["communication_fraction"] == pytest.approx(100 * communication / (communication + 100e-6))
    assert found["dominant_kernel_concentration"] == pytest.approx(100 * 100e-6 / (communication + 100e-6))
    assert found["collective_vol_allreduce_gb"] == pytest.approx(2 * 11000 / 1e9)
    assert found["mfu"] == pytest.approx(100 * 62.4e9 / (100e-6 * 2 * 918e12))
    assert found["compute_comm_overlap"] == pytest.approx(100 * 5 / (5 + 5 + 7 + 0.8))


def test_hockney_parameters_of_a_tpu_trace_are_those_it_was_made_with(tpu: Path) -> None:
    found = values(tpu)
    assert found["hockney_alpha_s"] == pytest.approx(2e-6, rel=1e-6)
    assert found["hockney_beta_s_per_byte"] == pytest.approx(1e-9, rel=1e-6)
    assert found["hockney_inverse_beta_Bps"] == pytest.approx(1e9, rel=1e-6)


def test_copies_of_a_tpu_last_from_their_start_to_their_end_by_the_clock_of_the_device(tpu: Path) -> None:
    """Two copies under way together: 6000 B in 3 µs and 2000 B in 5 µs are 8000 B in 8 µs of copying."""
    file = tpu / "host.trace.json"
    data = json.loads(file.read_text())
    rows = (("start.4", 10, 1, 6000), ("start.5", 11, 1, 2000), ("done.4", 12, 1, 0), ("done.5", 15, 1, 0))
    for name, offset, length, size in rows:
        more = {"bytes_accessed": size} if size else {}
        data["traceEvents"].append(
            xla(f"copy-{name}", "copy", 500 + offset, length, 0, device_offset_ps=str(offset * 10**6), **more)
        )
    data["traceEvents"].append(xla("copy-done.9", "copy", 600, 1, 0, device_offset_ps="20000000"))
    file.write_text(json.dumps(data))
    assert values(tpu)["average_memory_bandwidth"] == pytest.approx(8000 / 8e-6 / 1e9)


def test_a_kernel_belongs_to_one_family_by_its_name() -> None:
    expected = {
        "ncclDevKernel_AllReduce_Sum_bf16_RING_LL": "communication",
        "void dispatchKernel<__nv_bfloat16>": "communication",
        "void flash::flash_fwd_kernel<Flash_fwd_kernel_traits>": "attention",
        "vllm::concat_and_cache_mla_kernel": "attention",
        "at::native::sbtopk::gatherTopK": "moe_route",
        "vllm::moe::moe_align_block_size_kernel": "moe_route",
        "fused_moe_kernel": "moe_expert",
        "vllm::act_and_mul_kernel": "moe_expert",
        "sm80_xmma_gemm_bf16bf16_bf16f32": "other",
    }
    assert {name: family(name) for name in expected} == expected


def test_a_step_is_broken_down_by_families_and_its_traffic_by_parallelism(tmp_path: Path) -> None:
    """Two iterations, one rank: an AllReduce of 10 µs within and one of 30 µs outside of RedistributeBackward."""
    marks = [
        {"ph": "X", "cat": "cpu_op", "name": "RedistributeBackward", "pid": 1, "tid": 1, "ts": at, "dur": 20.0}
        for at in (100.0, 300.0)
    ]
    kernels = (
        ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 110.0, 10.0),
        ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 200.0, 30.0),
        ("ncclDevKernel_AllGather_RING_LL", 10.0, 8.0),
        ("ncclDevKernel_SendRecv", 30.0, 4.0),
        ("flash_fwd", 50.0, 50.0),
    )
    events = [
        {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": at, "dur": length, "args": {"stream": 7}}
        for name, at, length in kernels
    ]
    folder = write_bundle(tmp_path / "titan")
    for file in folder.glob("*.json"):
        file.unlink()
    (folder / "kineto_trace_0.json").write_text(json.dumps({"traceEvents": [*marks, *events]}))
    found = values(folder)
    each = {name: found[f"traffic_window@{name}"] * 1e6 for name in ("tp", "dp", "pp", "other", "total")}
    assert each == pytest.approx({"tp": 15.0, "dp": 9.0, "pp": 2.0, "other": 0.0, "total": 26.0})
    assert found["break_down_steps@attention"] == pytest.approx(0.05)
    assert found["break_down_steps@communication"] == pytest.approx(0.052)


def test_a_counter_after_the_end_of_the_trace_draws_nothing(tmp_path: Path) -> None:
    power = [{"ph": "C", "name": "power", "ts": at, "args": {"a": 5}} for at in (0, 100, 900)]
    found = values(write_bundle(tmp_path / "b", [span("gemm", 0, 400), *power]))
    assert found["energy_j"] == pytest.approx(5 * 400 / 1e6) and found["power_w"] == pytest.approx(5.0)


def test_tokens_that_the_trace_counts_go_before_those_of_whole_requests(tmp_path: Path) -> None:
    """Seven tokens in two seconds at 10 W and 36 USD an hour, while no request lies wholly in the trace."""
    counters = [
        {"ph": "C", "name": "output_tokens", "ts": at, "args": {"all": n}} for at, n in ((0, 3), (1e6, 5), (2e6, 10))
    ]
    power = {"ph": "C", "name": "power", "ts": 0, "args": {"a": 10}}
    events = [span("gemm", 0, 2e6), *counters, power, *instants(0, 0, 0.4, 1.4, 11)[:2]]
    found = values(write_bundle(tmp_path / "b", events, card=CARD + BLOCK))
    assert found["throughput_tokens_per_s"] == pytest.approx(3.5)
    assert found["energy_j_per_token"] == pytest.approx(20 / 7)
    assert found["cost_usd_per_million_tokens"] == pytest.approx(36 * 2 / 3600 / 7 * 1e6)


def test_bandwidth_counts_the_time_in_which_every_engine_is_in_the_trace(tmp_path: Path) -> None:
    """From 20 to 70 µs: half of the first event, all of the second, none of the third."""
    events = [span("gemm", 0, 1000)]
    for at, length in ((0, 40), (50, 10), (80, 10)):
        events.append(span("x", at, length, cat="memory", args={"memory": "m", "bytes": 1000, "peak_bytes_per_s": 1e9}))
    card = CARD + "x_chiplet: {window: {whole_s: [20.0e-6, 70.0e-6]}}\n"
    found = values(write_bundle(tmp_path / "b", events, card=card))
    assert found["memory_bandwidth_gb_per_s@m"] == pytest.approx(1500 / 50e-6 / 1e9)
    assert found["memory_utilization_max"] == pytest.approx(0.03)
    whole = values(write_bundle(tmp_path / "all", events))
    assert whole["memory_bandwidth_gb_per_s@m"] == pytest.approx(3000 / 1000e-6 / 1e9)


def test_exposed_communication_is_told_by_what_a_kernel_says_it_does(tmp_path: Path) -> None:
    events = [
        span("gemm", 0, 10),
        collective("SendRecv", 10, 20, 8, **{"Collective name": "all_to_allv"}),
        collective("SendRecv", 30, 5, 8, **{"Collective name": "send"}),
        span("cross_device_reduce_1stage", 40, 7),
    ]
    found = values(write_bundle(tmp_path / "b", events))
    told = {name.split("@")[1]: value for name, value in found.items() if name.startswith("exposed_communication_by")}
    assert told == pytest.approx({"alltoall": 20e-6, "sendrecv": 5e-6, "other": 7e-6})
    assert sum(told.values()) == pytest.approx(found["exposed_communication_s"])
