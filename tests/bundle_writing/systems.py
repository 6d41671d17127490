"""Four dies on a ring, GPU-like or TPU-like, with links of any width: what published comparisons are repeated on."""

from __future__ import annotations

from pathlib import Path

from hydra_dse.config.hardware import load_chiplet

BYTES_PER_FLOP = 0.15e-3
"""About the 450 GB/s of an H100 in one direction over the links to three others, per FLOP/s of its peak."""
GPU_LIKE = """\
name: gpu-like
kind: fixed
style: gpu
technology_nm: 4
area: 814 mm2
peak: 989 TFLOP/s
format: bf16
vector_peak: 67 TFLOP/s
sram: {capacity: 50 MB, bandwidth: 5.5 TB/s}
memory: {capacity: 80 GB, bandwidth: 3350 GB/s}
links: 4
link_bandwidth: 300 GB/s
energy: {flop: 0.8 pJ/FLOP, vector_flop: 1.6 pJ/FLOP, sram: 0.2 pJ/bit, memory: 13.4 pJ/bit}
static_power: 131 W
source: "h100 of the library, links of other widths"
"""
TPU_LIKE = """\
name: tpu-like
kind: fixed
style: systolic
technology_nm: 5
area: 700 mm2
peak: 918 TFLOP/s
format: bf16
vector_peak: 14 TFLOP/s
array: {rows: 256, columns: 256, cores: 4}
sram: {capacity: 128 MB, bandwidth: 16 TB/s}
memory: {capacity: 32 GB, bandwidth: 1640 GB/s}
links: 4
link_bandwidth: 300 GB/s
energy: {flop: 0.4 pJ/FLOP, vector_flop: 0.8 pJ/FLOP, sram: 0.2 pJ/bit, memory: 7 pJ/bit}
static_power: 60 W
source: "tpu-v6e of the library, links of other widths"
"""
RING = """\
package:
  topology: {{kind: torus, columns: 2, rows: 2, tile: [30 mm, 30 mm]}}
  link: {{class: ucie-advanced, bandwidth: {link} GB/s}}
dies:
  X: {{chiplet: {die}, count: 4}}
policy: {{serving: colocated, batching: chunked, max_batch: 16, token_budget: 512}}
placement: {{algorithm: communication_aware}}
"""


def write_ring(folder: Path, kind: str, link_gb_per_s: float | None = None) -> str:
    """Write a design; links of `BYTES_PER_FLOP` unless told otherwise.  Returns its file."""
    die = folder / f"{kind}.yaml"
    die.write_text({"gpu": GPU_LIKE, "tpu": TPU_LIKE}[kind])
    link = link_gb_per_s or load_chiplet(str(die)).matmul_flops_per_s * BYTES_PER_FLOP / 1e9
    design = folder / f"{kind}-ring-{link:g}.yaml"
    design.write_text(RING.format(link=f"{link:g}", die=die.name))
    return str(design)
