"""Step time, latencies by step markers, and MFU: the original toolkit's definitions."""

from __future__ import annotations

import numpy as np

from hydra_dse.bundle import conventions as words
from hydra_dse.bundle.cards.known import PEAK_TFLOPS
from hydra_dse.bundle.metrics.measured import Measured, mean, share
from hydra_dse.bundle.metrics.registry import Unavailable
from hydra_dse.bundle.reading.nouns import Steps

NO_STEPS = "no step markers (ProfilerStep#N, execute_context_* or run_batch)"
_ARCH = ("workload", "model", "model_arch")


def step_time_s(bundle: Measured) -> float:
    """Mean over ranks of the mean duration of the inner steps; of the first kind of marker that any rank has."""
    ranks = bundle.ranks("json")
    for kind in (words.TRAINING_STEP, words.SERVING_STEP, words.BATCH_STEP):
        found = [float(np.mean(r.trace.steps[kind].inner.duration)) / 1e6 for r in ranks if kind in r.trace.steps]
        if found:
            return mean(found, NO_STEPS)
    raise Unavailable(NO_STEPS)


def _positive_step_s(bundle: Measured) -> float:
    """The step time as a divisor."""
    seconds = step_time_s(bundle)
    if seconds <= 0:
        raise Unavailable("steps have no duration")
    return seconds


def tpu_step_time_s(bundle: Measured) -> float:
    """Mean of the inner engine steps, else the wall time over the card's iterations."""
    trace = bundle.tpu
    if trace.engine_steps:
        return float(np.mean(trace.steps.inner.duration)) / 1e6
    return tpu_wall_s(bundle) / bundle.positive("workload", "model", "iteration")


def tpu_wall_s(bundle: Measured) -> float:
    """First start to last end of the devices' events."""
    trace = bundle.tpu
    return float(np.max(trace.start + trace.duration) - np.min(trace.start)) / 1e6


def _inference(bundle: Measured) -> None:
    phase = bundle.text("workload", "model", "phase")
    if phase.lower() != "inference":
        raise Unavailable(f"the card's phase is {phase!r}; only 'inference' has it")


def _serving_steps(bundle: Measured) -> list[Steps]:
    ranks = bundle.ranks("json")
    for kind in (words.SERVING_STEP, words.BATCH_STEP):
        found = [rank.trace.steps[kind] for rank in ranks if kind in rank.trace.steps]
        if found:
            return found
    raise Unavailable("no markers of serving iterations (execute_context_* or run_batch)")


def _first(steps: list[Steps]) -> float:
    return mean([float(each.duration[0]) / 1e6 for each in steps], NO_STEPS)


def _later(steps: list[Steps]) -> float:
    later = [each.duration[1:-1] if len(each) > 2 else each.duration[1:] for each in steps]
    return mean([float(np.mean(each)) / 1e6 for each in later if len(each)], "one iteration only")


def _decodes(bundle: Measured) -> None:
    _inference(bundle)
    length = bundle.number_or(2, "workload", "data", "output_len")
    if length <= 1:
        raise Unavailable(f"the card's output_len is {length:g}: no token after the first")


def first_step_s(bundle: Measured) -> float:
    """The original's `ttft`: duration of the first serving iteration, without queueing."""
    _inference(bundle)
    return _first(_serving_steps(bundle))


def later_steps_s(bundle: Measured) -> float:
    """The original's `tpot`: mean duration of the iterations after the first."""
    _decodes(bundle)
    return _later(_serving_steps(bundle))


def tpu_first_step_s(bundle: Measured) -> float:
    """`ttft` of the engine steps."""
    _inference(bundle)
    return _first([_engine_steps(bundle)])


def tpu_later_steps_s(bundle: Measured) -> float:
    """`tpot` of the engine steps."""
    _decodes(bundle)
    return _later([_engine_steps(bundle)])


def _engine_steps(bundle: Measured) -> Steps:
    trace = bundle.tpu
    if not trace.engine_steps:
        raise Unavailable("no engine steps ('$core.py:331 step') in the trace")
    return trace.steps


def flops_per_step(bundle: Measured) -> float:
    """FLOPs f · B · S with f = 6(N − N_emb) + 12 L H Q S in training and 2(N − N_emb) + 4 L H Q S in inference.

    N counts the active parameters where the card has them ("Efficient large scale language modeling with mixtures of
    experts", as CCL-Bench uses it).
    """
    total = bundle.number(*_ARCH, "num_params")
    active = bundle.number_or(total, *_ARCH, "num_params_active")
    embedding = bundle.number_or(0.0, *_ARCH, "num_params_embedding")
    layers, heads, size = (bundle.number(*_ARCH, key) for key in ("num_layers", "num_heads", "head_dim"))
    batch = bundle.number_or(1.0, "workload", "data", "batch_size")
    length = bundle.number_or(1.0, "workload", "data", "seq_len")
    inference = bundle.text("workload", "model", "phase").lower() == "inference"
    weight, attention = (2.0, 4.0) if inference else (6.0, 12.0)
    flops = weight * (active - embedding) + attention * layers * heads * size * length
    return flops * batch * length


def peak_flops_per_s(bundle: Measured) -> float:
    """Peak of all devices: of our block, else of the table by the card's device."""
    block = bundle.number_or(0.0, words.BLOCK, "peak_flops_per_s")
    if block > 0:
        return block
    model = bundle.text("workload", "hardware", "xpu_spec", "model")
    if model.lower() not in PEAK_TFLOPS:
        raise Unavailable(f"no peak is known for the card's device {model!r}")
    return PEAK_TFLOPS[model.lower()] * 1e12 * bundle.positive("workload", "hardware", "xpu_spec", "total_count")


def mfu_percent(bundle: Measured) -> float:
    """100 · FLOPs of a step / (step time · peak)."""
    work, peak = flops_per_step(bundle), peak_flops_per_s(bundle)
    latencies = bundle.folder.latencies_s()
    if latencies:
        return 100.0 * work / (float(np.mean(latencies)) * peak)
    kind = words.TRAINING_STEP
    times = [float(np.mean(r.trace.steps[kind].inner.duration)) for r in bundle.ranks("json") if kind in r.trace.steps]
    why = "no ProfilerStep#N markers and no *.latency.json with the latency of the batch"
    return 100.0 * share(work, mean(times, why) / 1e6 * peak, "steps have no duration")


def tpu_mfu_percent(bundle: Measured) -> float:
    """100 · recorded FLOPs / (union of the times of the events that have some · peak)."""
    from hydra_dse.bundle.metrics.intervals import union

    trace = bundle.tpu
    there = trace.model_flops > 0
    if not there.any():
        raise Unavailable("no event says its model_flops")
    busy_s = union(trace.start[there], trace.start[there] + trace.duration[there]).length / 1e6
    if busy_s <= 0:
        raise Unavailable("events with model_flops have no duration")
    return 100.0 * float(np.sum(trace.model_flops[there])) / (busy_s * peak_flops_per_s(bundle))


def step_score(bundle: Measured) -> float:
    """Score w · G0 / G + (1 − w) · T0 / T; G from gpu_count.txt, else the ranks; the rest from its config."""
    step = _positive_step_s(bundle)
    devices = float(len(bundle.ranks("json")))
    file = bundle.folder.side_file("gpu_count.txt")
    if file is not None:
        text = file.read_text(encoding="utf-8", errors="replace").strip()
        if not text.isdigit() or int(text[:9]) < 1:
            raise Unavailable(f"gpu_count.txt holds no number of devices: {text[:20]!r}")
        devices = float(text[:9])
    weights = _score_weights(bundle)
    return weights["w"] * weights["G0"] / devices + (1 - weights["w"]) * weights["T0"] / step


def _score_weights(bundle: Measured) -> dict[str, float]:
    from hydra_dse.config.loader import load_yaml
    from hydra_dse.errors import InputError

    weights = {"G0": 16.0, "T0": 0.44, "w": 0.5}
    file = bundle.folder.side_file("gpu_step_score_config.yaml")
    if file is None:
        return weights
    try:
        data = load_yaml(file).data
    except InputError as error:
        raise Unavailable(str(error.faults[0])) from None
    for key in weights:
        value = data.get(key, weights[key])
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < 1e12:
            raise Unavailable(f"gpu_step_score_config.yaml: {key} is no number: {value!r}")
        weights[key] = float(value)
    return weights


def implied_mfu(bundle: Measured) -> float:
    """MFU by the markers of the card's work: what card and trace imply together; above 1 is impossible.

    A training step does the work that the card states.  A serving iteration does not: it takes as many as there are
    output tokens, so that a trace implies something only where it holds that many.
    """
    seconds = mean([float(np.sum(each.duration)) / len(each) for each in _work_steps(bundle)], NO_STEPS)
    seconds *= _steps_of_the_work(bundle) / 1e6
    return share(flops_per_step(bundle), seconds * peak_flops_per_s(bundle), "steps have no duration")


def implied_mfu_of_compute_time(bundle: Measured) -> float:
    """The same over the time of those steps in which a kernel computes; above 1 is impossible."""
    steps = _work_steps(bundle)
    ranks = bundle.with_kernels("json")
    busy = [
        float(np.mean(rank.compute.within(each.start, each.start + each.duration)))
        for rank, each in zip(ranks, steps, strict=False)
    ]
    seconds = mean(busy, NO_STEPS) * _steps_of_the_work(bundle) / 1e6
    return share(flops_per_step(bundle), seconds * peak_flops_per_s(bundle), "no compute kernel runs within the steps")


def _work_steps(bundle: Measured) -> list[Steps]:
    """The steps of each rank with kernels that together do the card's work: inner ones in training, all in serving."""
    found = []
    for rank in bundle.with_kernels("json"):
        if rank.steps is None:
            raise Unavailable(NO_STEPS)
        kind, steps = rank.steps
        found.append(steps.inner if kind == words.TRAINING_STEP else steps)
    return found


def _steps_of_the_work(bundle: Measured) -> float:
    """How many steps do the work that the card states.

    Raises:
        Unavailable: the trace shows a part of a serving batch.
    """
    ranks = bundle.with_kernels("json")
    if ranks[0].steps is None or ranks[0].steps[0] == words.TRAINING_STEP:
        return 1.0
    iterations, tokens = len(ranks[0].steps[1]), bundle.number("workload", "data", "output_len")
    if iterations != tokens:
        raise Unavailable(f"the trace shows {iterations} iterations of a batch that takes {tokens:g} (output_len)")
    return float(iterations)


def recorded_flops_utilization(bundle: Measured) -> float:
    """Summed args.flops of all kernels over the span of the trace times the peak; above 1 is impossible."""
    ranks = bundle.with_kernels("json")
    told = [rank.trace.flops for rank in ranks if rank.trace.flops is not None]
    if not told:
        raise Unavailable("no kernel says its args.flops")
    spans = [rank.span_us for rank in ranks]
    seconds = (max(end for _, end in spans) - min(start for start, _ in spans)) / 1e6
    return share(sum(told), seconds * peak_flops_per_s(bundle), "the trace has no span")
