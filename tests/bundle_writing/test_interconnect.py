"""Doubling the interconnect of a TPU-like and of a GPU-like system from equal relative baselines, overlap kept.

Four dies on a ring, links of 150 GB/s per PFLOP/s of a die's peak in both systems, iteration times by operators.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hydra_dse.bundle.whatif import Scale, Sensitivity, scaled, what_if
from hydra_dse.cli.simulation import Simulation
from hydra_dse.design.nouns import Design
from hydra_dse.results import Evaluation

BYTES_PER_FLOP = 0.15e-3
"""About the 450 GB/s of an H100 in one direction over the links to three others, per FLOP/s of its peak."""
DESIGN = """
package:
  topology: {{kind: torus, columns: 2, rows: 2, tile: [30 mm, 30 mm]}}
  link: {{class: ucie-advanced, bandwidth: {link} GB/s}}
dies:
  X: {{chiplet: {chip}, count: 4}}
policy: {{serving: colocated, batching: chunked, max_batch: 16, token_budget: 512}}
placement: {{algorithm: communication_aware}}
"""


def _doubled(folder: Path, chip: str, link: float, model: str, prompt: int) -> Sensitivity:
    """Gains of twice the link bandwidth over three paired runs."""
    file = folder / f"{chip}.yaml"
    file.write_text(DESIGN.format(chip=chip, link=link))
    lengths = f"workload.lengths={{prompt: {prompt}, output: 64}}"
    overrides = ("workload.arrivals={process: poisson, rate: 2/s}", lengths)
    run = Simulation(
        str(file), "hydra-chat", model=model, requests=100, replications=1, detail="memo", overrides=overrides
    )
    placed = run.placed[0]
    peak = placed.package.dies[0].chiplet.matmul_flops_per_s
    base = scaled(placed, [Scale("noi", peak * BYTES_PER_FLOP / (link * 1e9))])
    runs = [replace(run, seed=seed) for seed in range(3)]

    def simulate(design: Design) -> list[Evaluation]:
        return [each.evaluate(design=design) for each in runs]

    return what_if(base, [Scale("noi", 2.0)], simulate, "ttft_mean_s").sensitivities[0]


@pytest.mark.slow
@pytest.mark.parametrize(("model", "prompt"), [("nemotron-h-4b", 256), ("llama-3.1-8b", 512)])
def test_the_tpu_gains_more_in_ttft_on_small_and_medium_work_but_not_in_throughput(
    tmp_path: Path, model: str, prompt: int
) -> None:
    """The published order holds for a mean prompt: a GPU's iteration has a longer fixed part that links do not touch.

    In saturation that part is shared by many rows, and the two gain the same.
    """
    tpu = _doubled(tmp_path, "tpu-v6e", 100, model, prompt)
    gpu = _doubled(tmp_path, "h100", 25, model, prompt)
    for found in (tpu, gpu):
        assert 1.0 < found.gains["ttft_mean_s"].mean < 2.0
    assert tpu.gains["ttft_mean_s"].mean > gpu.gains["ttft_mean_s"].mean
    rates = [found.gains["saturation_tokens_per_s"].mean for found in (tpu, gpu)]
    assert rates[0] == pytest.approx(rates[1], abs=0.01)
