"""Write what the library takes from the shipped fits: `python benchmarks/derive_calibrations.py`.

The calibration `measured`, and the machine fits of single chips (`machines.yaml`).  Everything in
`hydra_dse/library/calibrations.yaml` below the marker is written here; what stands above it is not touched.  Parameters
without a measurement are those of `default`, and are named as assumptions.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

from hydra_dse.calibration.derive import Derived, derived, derived_gpu
from hydra_dse.calibration.machines import machines_yaml
from hydra_dse.calibration.records import read_fits
from hydra_dse.config.hardware import load_calibration
from hydra_dse.config.library import LIBRARY
from hydra_dse.hardware.calibration import FIXED, PARAMETERS, Calibration

MARKER = "  # Below: written by benchmarks/derive_calibrations.py from fits.yaml; do not edit.\n"
RANGES = {"rows": (1, 8192), "prompt": (1, 16384), "context": (2, 65536)}
SOURCE = (
    "benchmarks/derive_calibrations.py from fits.yaml: GEMM share, core allocation and half width from WSE-2 compile "
    "reports; launch and collective from SN40L serving; stage imbalance from Bow and GC200; attention and memory from "
    "H100 and B200 kernel tables (transferred from GPU controllers).  assumption: what basis calls so, as in default"
)


def text() -> str:
    """The generated part of the file."""
    fits = read_fits()
    base = load_calibration("default")
    lines = [MARKER, "  measured:\n", "    default:\n", *_section(base.default, derived(fits), 6), "    styles:\n"]
    vector = {name: part for name, part in derived(fits).items() if name != "half_width"}
    lines += ["      gpu:\n", *_section(base.of("gpu"), derived_gpu(fits), 8)]
    lines += ["      vector:\n", *_section(base.of("vector"), vector, 8)]
    return "".join(lines)


def _section(base: Calibration, found: Mapping[str, Derived], indent: int) -> list[str]:
    pad = " " * indent
    compute = {kind.value: found.get(f"compute.{kind.value}") or value for kind, value in base.compute.items()}
    memory = {kind: found.get(f"memory.{kind}") or value for kind, value in base.memory.items()}
    lines = [f"{pad}compute:\n", *(f"{pad}  {name}: {_plain(value)}\n" for name, value in compute.items())]
    lines += [f"{pad}memory: {{{', '.join(f'{name}: {_plain(value)}' for name, value in memory.items())}}}\n"]
    overhead = found.get("operator_overhead") or base.operator_overhead_s
    lines += [f"{pad}operator_overhead: {_seconds(overhead)}\n"]
    lines += [f"{pad}iteration_overhead: {_seconds(base.iteration_overhead_s)}\n"]
    if "collective_overhead" in found:
        lines += [f"{pad}collective_overhead: {_seconds(found['collective_overhead'])}\n"]
    lines += [f"{pad}{name}: {_plain(found[name])}\n" for name in ("half_width", "stage_imbalance") if name in found]
    lines += [f"{pad}kv_access: {_plain(found['kv_access'])} B\n"]
    lines += [f"{pad}relative_error: {base.relative_error}\n", f"{pad}intervals:\n"]
    named = [name for name in PARAMETERS if name in found]
    lines += [f"{pad}  {name}: [{_short(found[name].low)}, {_short(found[name].high)}]\n" for name in named]
    lines += [f"{pad}basis:\n", *(f"{pad}  {name}: {found[name].basis}\n" for name in named)]
    lines += [f"{pad}  {name}: assumption\n" for name in PARAMETERS if name not in found and name not in FIXED]
    ranges = ", ".join(f"{name}: [{low}, {high}]" for name, (low, high) in RANGES.items())
    return [*lines, f"{pad}ranges: {{{ranges}}}\n", f"{pad}source: {SOURCE!r}\n"]


def _plain(value: Derived | float) -> str:
    return _short(value.value if isinstance(value, Derived) else value)


def _short(value: float) -> str:
    return f"{float(f'{value:.3g}'):.10f}".rstrip("0").rstrip(".")


def _seconds(value: Derived | float) -> str:
    seconds = value.value if isinstance(value, Derived) else value
    return f"{float(f'{seconds * 1e6:.3g}'):g} us"


def main() -> int:
    """Rewrite the generated part."""
    path = LIBRARY / "calibrations.yaml"
    kept = path.read_text(encoding="utf-8").split(MARKER)[0]
    path.write_text(kept + text(), encoding="utf-8")
    (LIBRARY / "machines.yaml").write_text(machines_yaml(read_fits()), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
