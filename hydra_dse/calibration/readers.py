"""Readers of measured tables as others publish them: a CSV is recognised by its columns.

Kernel tables (GEMM, attention, gated delta net, Kimi delta attention, Mamba-2), serving and training sweeps of RDUs,
global-batch sweeps of IPUs, depth sweeps and kernel tables of the wafer.  Rows without a measured value (failed runs)
are left out.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np

from hydra_dse.calibration import dataflow_readers, kernel_readers
from hydra_dse.calibration.chips import chip_figures, chip_named_in
from hydra_dse.calibration.measurements import read_measurements, shipped_files
from hydra_dse.calibration.nouns import Observations
from hydra_dse.calibration.rows import Row, Table
from hydra_dse.errors import Fault, InputError, did_you_mean

Reader = Callable[[Sequence[Row]], Iterable[Table]]
# Columns that tell a format, its reader, and the chip that it speaks of where the file does not say.
FORMATS: tuple[tuple[frozenset[str], Reader, str | None], ...] = (
    (frozenset({"gemm_dtype", "m", "n", "k", "latency_ms"}), kernel_readers.gemm, None),
    (frozenset({"isl", "num_key_value_heads", "step", "latency_ms"}), kernel_readers.attention, None),
    (frozenset({"num_v_heads", "head_v_dim", "phase", "latency_ms"}), kernel_readers.delta, None),
    (frozenset({"nheads", "d_state", "chunk_size", "latency_ms"}), kernel_readers.mamba, None),
    (frozenset({"rdu_count", "end_to_end_latency_s"}), dataflow_readers.rdu_serving, "sn40l"),
    (frozenset({"rdu_latency_ms", "section_count"}), dataflow_readers.rdu_training, "sn30"),
    (
        frozenset({"hidden_size", "max_sequence_length", "derived_throughput_samples_per_s"}),
        dataflow_readers.wse_streaming,
        "wse-2",
    ),
    (frozenset({"ipu_count", "metric_with_unit", "value"}), dataflow_readers.ipu_pipeline, "gc200"),
    (frozenset({"encoder_layers", "sum_pe_count"}), dataflow_readers.wse_depth, "wse-2"),
    (frozenset({"kernel", "active_pes_count", "compute_utilization_pct"}), dataflow_readers.wse_kernels, "wse-2"),
)


def profile_path(name: str) -> Path:
    """The file of a profile: tables that ship with the project, or a path.

    Raises:
        InputError: neither.
    """
    shipped = {path.stem: path for path in shipped_files()}
    path = shipped.get(name, Path(name))
    if not path.is_file():
        message = (
            f"no file and no shipped tables of that name{did_you_mean(name, shipped)}; ships: {', '.join(shipped)}"
        )
        raise InputError(Fault(message, file=name))
    return path


def read_profile(path: Path, chip: str | None = None) -> list[Observations]:
    """Read a measured file: our own YAML, or a CSV of a known format.

    Args:
        path: the file.
        chip: where it was measured; by default what the file's name or its format says.

    Raises:
        InputError: unknown format, no chip, or a row that cannot be read (with its line).
    """
    if path.suffix in (".yaml", ".yml"):
        return read_measurements(path)
    rows = _rows(path)
    reader, usual = _format(path, rows)
    name = chip or usual or chip_named_in(path.stem)
    if name is None:
        raise InputError(Fault("does not say on which chip it was measured: add --chip NAME", file=str(path)))
    figures = chip_figures(name)
    tables = list(reader(rows))
    if not any(table.rows for table in tables):
        raise InputError(Fault("no row with a measured value that a form can use", file=str(path)))
    return [
        Observations(
            table.form,
            figures,
            table.variant,
            {name: np.array([row[n] for row in table.rows]) for n, name in enumerate(table.form.columns)},
            np.array([row[-1] for row in table.rows]),
            path.name,
        )
        for table in tables
        if table.rows
    ]


def _rows(path: Path) -> list[Row]:
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            reader = csv.DictReader(stream)
            rows = [Row(str(path), reader.line_num, row) for row in reader]
    except OSError as error:
        raise InputError(Fault(f"cannot be read: {error.strerror}", file=str(path))) from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(Fault(f"is not a CSV file: {error}", file=str(path))) from error
    if not rows:
        raise InputError(Fault("has no rows", file=str(path)))
    return rows


def _format(path: Path, rows: Sequence[Row]) -> tuple[Reader, str | None]:
    columns = rows[0].columns
    for needed, reader, usual in FORMATS:
        if needed <= columns:
            return reader, usual
    nearest = min(FORMATS, key=lambda known: len(known[0] - columns))[0]
    message = f"its columns fit no known format; the nearest also needs {', '.join(sorted(nearest - columns))}"
    raise InputError(Fault(message, file=str(path), line=1))
