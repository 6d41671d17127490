"""Select the measured figures that calibrations ship with: `python benchmarks/select_measurements.py`.

Reads published tables (folder in `HYDRA_DSE_REFERENCE`) and writes a thin, regular sample of their figures, with
sources, into `hydra_dse/library/measurements/`.  Rows of a table are sorted by their columns; one row in `every` is
kept (whole weight shapes of a GEMM table; more of a short table); what is left out is what accuracy is measured on.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hydra_dse.calibration.measurements import SHIPPED
from hydra_dse.calibration.nouns import Observations
from hydra_dse.calibration.readers import read_profile

AICONFIGURATOR = "aiconfigurator-core 0.12.0 (NVIDIA, Apache-2.0), measured with {}"
TRTLLM = "TensorRT-LLM 1.3.0rc"
DABENCH = "augustuszzq/Regular-DABench-LLM@5f86bb6, {}"


@dataclass(frozen=True)
class Source:
    """A published table, the file of ours it goes to, and how thin the sample is."""

    path: str
    target: str
    every: int
    source: str
    only: tuple[str, ...] = ()


SOURCES = (
    *(
        Source(f"kernels/{name}_{chip}_sxm_{tag}.csv", chip, every, AICONFIGURATOR.format(software), only)
        for chip in ("h100", "b200")
        for name, tag, every, software, only in (
            ("gemm", "vllm_0.24.0", 4, "vLLM 0.24.0", ("gemm-bf16", "gemm-fp8")),
            ("attention_context", "vllm_0.24.0", 4, "vLLM 0.24.0", ()),
            ("attention_generation", "vllm_0.24.0", 4, "vLLM 0.24.0", ()),
            ("gdn", "vllm_0.24.0", 5, "vLLM 0.24.0", ()),
            ("kda", "sglang_0.5.16", 5, "SGLang 0.5.16", ()),
        )
    ),
    Source("kernels/mamba2_b200_trtllm_1.3.0rc15.csv", "b200", 5, AICONFIGURATOR.format(TRTLLM + "15")),
    Source("kernels/mamba2_conv1d_h100_sxm_trtllm_1.3.0rc20.csv", "h100", 5, AICONFIGURATOR.format(TRTLLM + "20")),
    Source("dabench/sn30_gpt2_sweep.csv", "sn30", 1, DABENCH.format("timed; batch 16 and sequence 1,024 inferred")),
    Source("dabench/sn40l_inference.csv", "sn40l", 1, "argonne-lcf/LLM-Inference-Bench, figure 18: 8 RDUs, end to end"),
    Source("dabench/ipu_measurements.csv", "gc200", 1, "CARAML (SC24-W), table II: GPT 117M pipelined over 4 IPUs"),
    Source("dabench/wse2_depth_width_sweep.csv", "wse-2", 1, DABENCH.format("compiler estimates (Cerebras R1.6.0)")),
    *(
        Source(f"dabench/cs2_{name}_training_usc.csv", "wse-2", 1, "Zhang et al., arXiv 2409.00287, tables III to V")
        for name in ("bert", "gpt3")
    ),
    Source("dabench/wse2_kernels.csv", "wse-2", 3, DABENCH.format("compile reports (compiler estimates)")),
)  # fmt: skip
WHOLE = ("gemm", "narrow-gemm")
ENOUGH = 60


def thinned(table: Observations, every: int) -> Observations:
    """One row in `every` in the order of the columns; whole configurations of a GEMM table."""
    if table.form.name in WHOLE:
        return table.rows(table.configurations() % every == 1)
    every = max(1, min(every, len(table) // ENOUGH))
    names = table.form.columns
    order = np.lexsort([table.response, *(table.columns[name] for name in reversed(names))])
    return table.rows(np.sort(order[::every]))


def joined(tables: list[tuple[Observations, str]]) -> list[tuple[Observations, str]]:
    """Tables of one form and variant as one."""
    found: dict[str, tuple[Observations, str]] = {}
    for table, source in tables:
        if table.key in found:
            first, source = found[table.key]
            columns = {name: np.concatenate((first.columns[name], table.columns[name])) for name in table.columns}
            response = np.concatenate((first.response, table.response))
            table = Observations(table.form, table.chip, table.variant, columns, response, source)
        found[table.key] = (table, source)
    return list(found.values())


def table_text(table: Observations, source: str) -> str:
    """A table in our schema; columns that never change are constants."""
    names = table.form.columns
    constant = {name: table.columns[name][0] for name in names if np.ptp(table.columns[name]) == 0}
    varying = [name for name in names if name not in constant]
    unit, factor = ("1", 1.0) if table.form.response != "time_s" else ("us", 1e6)
    rows = np.column_stack([*(table.columns[name] for name in varying), table.response * factor])
    order = np.lexsort(rows.T[::-1])
    lines = [f"  - form: {table.form.name}"]
    lines += [f"    variant: {table.variant}"] if table.variant else []
    lines += [f"    chip: {table.chip.name}", f"    unit: {unit if unit != '1' else repr(unit)}"]
    lines += [f"    columns: [{', '.join(varying)}]"]
    lines += [f"    constants: {{{', '.join(f'{k}: {plain(v, 6)}' for k, v in constant.items())}}}"] if constant else []
    lines += [f"    source: {source!r}", "    rows:"]
    lines += [
        f"      - [{', '.join([*(plain(value, 6) for value in row[:-1]), plain(row[-1], 4)])}]" for row in rows[order]
    ]
    return "\n".join(lines)


def plain(value: float, digits: int) -> str:
    """A number with so many significant digits, without an exponent."""
    return np.format_float_positional(float(f"{value:.{digits}g}"), trim="-")


def main() -> int:
    """Write the files."""
    reference = Path(os.environ.get("HYDRA_DSE_REFERENCE", "../shared/reference"))
    if not reference.is_dir():
        sys.stderr.write(f"no published tables at {reference}: set HYDRA_DSE_REFERENCE\n")
        return 2
    read: dict[str, list[tuple[Observations, str]]] = {}
    for item in SOURCES:
        for table in read_profile(reference / item.path, item.target):
            if not item.only or table.key in item.only:
                read.setdefault(item.target, []).append((thinned(table, item.every), item.source))
    for target, found in read.items():
        tables = [table_text(table, source) for table, source in joined(found)]
        head = "# Written by benchmarks/select_measurements.py from published tables; do not edit.\ntables:\n"
        (SHIPPED / f"{target}.yaml").write_text(head + "\n".join(tables) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
