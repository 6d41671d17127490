"""Forms meet the physics at their limits."""

from __future__ import annotations

import numpy as np
import pytest

from hydra_dse.calibration.dataflow_forms import DATAFLOW_FORMS, IPU_PIPELINE, RDU_SERVING, WSE_STREAMING
from hydra_dse.calibration.kernel_forms import (
    CHUNK_SCAN,
    DECODE_ATTENTION,
    GEMM,
    KERNEL_FORMS,
    NARROW_GEMM,
    PREFILL_ATTENTION,
    RECURRENT_SCAN,
)
from hydra_dse.calibration.nouns import ChipFigures, FloatArray, Form

CHIP = ChipFigures("made", 1e15, 1e12, 100.0, 8.0)


def starts(form: Form) -> FloatArray:
    return np.array([parameter.start for parameter in form.parameters])


def predicted(form: Form, values: FloatArray | None = None, **columns: float) -> float:
    filled = {name: np.array([columns.get(name, 1.0)]) for name in form.columns}
    return float(form.predict(starts(form) if values is None else values, filled, CHIP)[0])


@pytest.mark.parametrize("form", [*KERNEL_FORMS, *DATAFLOW_FORMS], ids=lambda form: form.name)
def test_a_form_starts_inside_its_limits_and_gives_a_positive_finite_response(form: Form) -> None:
    for parameter in form.parameters:
        assert parameter.low < parameter.start < parameter.high
        assert parameter.meaning
    value = predicted(form, **dict.fromkeys(form.columns, 64.0))
    assert np.isfinite(value)
    assert value > 0


def test_a_large_gemm_runs_at_its_share_of_the_peak() -> None:
    values = np.array([2e-6, 0.8, 0.85, 1.0, 20.0, 1e-3])
    size = {"m": 25_600.0, "n": 25_600.0, "k": 16_384.0, "bytes": 2.0, "speed": 1.0, "busy": 0.0}
    flops = 2.0 * 25_600.0**2 * 16_384.0
    assert flops / predicted(GEMM, values, **size) / 1e15 == pytest.approx(0.8, rel=0.01)


def test_a_gemm_of_one_row_streams_its_weights() -> None:
    values = np.array([2e-6, 0.8, 0.85, 1.0, 20.0, 1e-3])
    size = {"m": 1.0, "n": 16_384.0, "k": 16_384.0, "bytes": 2.0, "speed": 1.0, "busy": 0.0}
    streamed = 2.0 * 16_384.0**2 / 0.85e12
    assert predicted(GEMM, values, **size) == pytest.approx(2e-6 + streamed, rel=0.01)


def test_a_narrow_gemm_pays_for_its_activations_beside_the_multiplication() -> None:
    values = np.array([2e-6, 0.8, 0.85, 1.0, 20.0, 1e-3])
    size = {"m": 4096.0, "n": 1024.0, "k": 8192.0, "bytes": 1.0, "speed": 2.0, "busy": 0.0}
    plain, narrow = predicted(GEMM, values, **size), predicted(NARROW_GEMM, np.append(values, 0.25), **size)
    # Two bytes read and one written of each activation, at a quarter of 1 TB/s.
    assert narrow - plain == pytest.approx(3.0 * 4096 * 8192 / 0.25e12)


def test_one_tile_more_than_the_processors_costs_another_wave() -> None:
    values = np.array([1e-7, 0.8, 1.5, 1.0, 20.0, 1e-3])
    # One tile of 128 x 256 each, or eight of 64 x 64: eight waves of the small ones become nine.
    full = {"m": 128.0, "n": 25_600.0, "k": 65_536.0, "bytes": 0.001, "speed": 1.0, "busy": 0.0}
    more = {**full, "n": 25_600.0 + 256.0}
    assert predicted(GEMM, values, **more) / predicted(GEMM, values, **full) == pytest.approx(9 / 8, rel=0.01)


def test_a_board_that_was_busy_multiplies_slower_by_the_throttled_share() -> None:
    values = np.array([1e-7, 0.8, 1.5, 1.0, 20.0, 0.4])
    size = {"m": 1280.0, "n": 2560.0, "k": 4096.0, "bytes": 0.001, "speed": 1.0}
    cold, hot = predicted(GEMM, values, **size, busy=0.0), predicted(GEMM, values, **size, busy=10.0)
    assert hot / cold == pytest.approx(1.4, rel=0.05)


def test_prefill_attention_grows_with_the_square_of_long_prompts() -> None:
    shape = {"batch": 8.0, "heads": 32.0, "kv_heads": 8.0}
    values = np.array([1e-7, 0.6, 1.0])
    ratio = predicted(PREFILL_ATTENTION, values, length=32_768.0, **shape) / predicted(
        PREFILL_ATTENTION, values, length=16_384.0, **shape
    )
    assert ratio == pytest.approx(4.0, rel=0.01)


def test_decode_attention_reads_the_cache_once() -> None:
    values = np.array([1e-7, 0.5, 1e-12])
    time = predicted(DECODE_ATTENTION, values, batch=16.0, context=65_536.0, heads=32.0, kv_heads=8.0)
    cache = 16.0 * 65_536.0 * 8.0 * 128.0 * 2.0 * 2.0
    assert time == pytest.approx(cache / 0.5e12, rel=0.01)


def test_a_recurrent_scan_costs_waves_of_sequences_and_heads() -> None:
    one = predicted(RECURRENT_SCAN, batch=2.0, length=8192.0, heads=50.0)
    still_one = predicted(RECURRENT_SCAN, batch=1.0, length=8192.0, heads=50.0)
    two = predicted(RECURRENT_SCAN, batch=2.0, length=8192.0, heads=51.0)
    floor = starts(RECURRENT_SCAN)[0]
    assert one == pytest.approx(still_one)
    assert two - floor == pytest.approx(2.0 * (one - floor))


def test_a_padded_chunk_scan_pays_for_whole_chunks_and_an_unpadded_one_for_tokens() -> None:
    shape = {"batch": 64.0, "heads": 64.0, "groups": 8.0, "width": 64.0, "state": 128.0, "chunk": 128.0}
    assert predicted(CHUNK_SCAN, length=1.0, padded=1.0, **shape) == pytest.approx(
        predicted(CHUNK_SCAN, length=128.0, padded=1.0, **shape)
    )
    assert predicted(CHUNK_SCAN, length=1.0, padded=0.0, **shape) < predicted(
        CHUNK_SCAN, length=128.0, padded=0.0, **shape
    )


def test_a_pipeline_of_a_large_batch_approaches_its_sample_time() -> None:
    samples = 1e6
    assert predicted(IPU_PIPELINE, samples=samples) / samples == pytest.approx(starts(IPU_PIPELINE)[1], rel=1e-3)


def test_serving_without_cost_of_steps_streams_weights_over_all_chips() -> None:
    values = np.array([1e-5, 1e-7, 1.0])
    load = {"input": 1.0, "output": 1001.0, "batch": 1.0, "weight_bytes": 16e9, "kv_bytes": 1.0}
    time = predicted(RDU_SERVING, values, **load, parameters=8e9, layers=32.0, width=4096.0)
    assert time / 1000.0 == pytest.approx(16e9 / (0.85 * 8e12), rel=0.01)


def test_a_streamed_layer_takes_its_launch_or_its_work_whichever_is_longer_where_they_overlap() -> None:
    size = {"layers": 10.0, "width": 1024.0, "length": 128.0}
    values = np.array([5e-3, 0.5, 0.1, 20.0])
    assert predicted(WSE_STREAMING, values, **size, tokens=128.0) == pytest.approx(0.05, rel=1e-3)
    flops = 3 * 10 * (24 * 1024**2 * 1e9 + 4 * 1e9 * 128 * 1024)
    rate = CHIP.peak_flops_per_s * 0.5 / (1 + 0.1 / 1024)
    assert predicted(WSE_STREAMING, values, **size, tokens=1e9) == pytest.approx(flops / rate, rel=1e-3)
    in_turn = np.array([5e-3, 0.5, 0.1, 1.0])
    assert predicted(WSE_STREAMING, in_turn, **size, tokens=1e9) == pytest.approx(flops / rate + 0.05, rel=1e-6)
