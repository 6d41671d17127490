"""Figures of the chips that tables are fitted for: the hardware library, and what it does not state."""

from __future__ import annotations

from hydra_dse.calibration.nouns import ChipFigures
from hydra_dse.config.hardware import load_chiplet
from hydra_dse.config.library import library_names
from hydra_dse.errors import Fault, InputError, did_you_mean

# Processors of a kernel's tiles and chips of a machine, where the library does not say.
PROCESSORS: dict[str, tuple[float, str]] = {
    "a100": (108.0, "108 streaming multiprocessors (NVIDIA A100 white paper)"),
    "h100": (132.0, "132 streaming multiprocessors of the SXM module (NVIDIA Hopper architecture, in depth)"),
    "h200": (132.0, "132 streaming multiprocessors, same die as H100"),
    "b200": (148.0, "148 streaming multiprocessors (CUDA device properties of B200 SXM)"),
    "wse-2": (850_000.0, "850,000 processing elements (library wse-2)"),
    "l40s": (142.0, "142 streaming multiprocessors (NVIDIA L40S product brief)"),
}
# Chips that the hardware library lacks: peak, off-chip bandwidth, source.
OTHERS: dict[str, tuple[float, float, str]] = {
    "l40s": (362e12, 864e9, "aiconfigurator-core 0.12.0 l40s.yaml"),
}
MACHINES: dict[str, float] = {"sn40l": 8.0}


def chip_figures(name: str) -> ChipFigures:
    """Return the figures of a chip by name.

    Raises:
        InputError: unknown name.
    """
    known = (*library_names("chiplets"), *OTHERS)
    if name not in known:
        raise InputError(Fault(f"no figures for chip {name!r}{did_you_mean(name, known)}"))
    processors, source = PROCESSORS.get(name, (1.0, ""))
    chips = MACHINES.get(name, 1.0)
    if name in OTHERS:
        peak, bandwidth, stated = OTHERS[name]
        return ChipFigures(
            name, peak, bandwidth, processors, chips, "; ".join(part for part in (stated, source) if part)
        )
    die = load_chiplet(name)
    bandwidth = die.memory_bandwidth_bytes_per_s or die.sram_bandwidth_bytes_per_s
    return ChipFigures(name, die.matmul_flops_per_s, bandwidth, processors or float(die.cores), chips, source)


def chip_named_in(text: str) -> str | None:
    """The chip that a file name speaks of, None where it names none."""
    words = text.lower().replace("-", "_").split("_")
    for name in sorted((*library_names("chiplets"), *OTHERS), key=len, reverse=True):
        if name.replace("-", "") in words or name in words:
            return name
    return None
