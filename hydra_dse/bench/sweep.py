"""Sweeps of a modelled chip: sizes from text such as `layers=1/12/24,hidden=768/1536`; failures are kept."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

from hydra_dse.bench.modelled import Case, Machine, modelled
from hydra_dse.bench.record import PHASES, ModelShape, Profile
from hydra_dse.bench.tier1 import Settings
from hydra_dse.config.hardware import load_calibration, load_chiplet, load_memory
from hydra_dse.config.machines import load_machine_fits
from hydra_dse.errors import InputError, did_you_mean, one_of
from hydra_dse.hardware.components import Chiplet
from hydra_dse.hardware.machine_fit import MachineFit

WHOLE = ("layers", "hidden", "batch", "sequence", "chips", "vocabulary", "heads", "ffn", "kv_width", "matrices")
WORDS = ("precision", "parallelism", "mode")
PRECISIONS = ("fp32", "fp16", "bf16", "mixed", "fp8", "int8")
WAYS = ("data", "tensor", "pipeline", "weight-streaming")
PIPELINE_CHIPS = 4
"""Chips of a machine whose chips execute a model as a pipeline, where the sweep does not say: four a board."""
FITTED, UNDER_FITS = "fitted", "measured"
_MOST_CASES = 20_000
_MOST = {"layers": 1_000, "hidden": 131_072, "heads": 4_096, "chips": 100_000}
"""Largest values that a sweep takes, where it is not ten million."""


@dataclass(frozen=True)
class Sweep:
    """Values of each size, in the order given."""

    values: dict[str, tuple[int | str, ...]]

    def get(self, name: str, *default: int | str) -> tuple[int | str, ...]:
        """Values of a size, or its default."""
        return self.values.get(name, default)


def parse_sweep(text: str | None) -> Sweep:
    """Read `name=value/value,name=value`.

    Raises:
        InputError: an unknown name or a value that does not fit it.
    """
    values: dict[str, tuple[int | str, ...]] = {}
    for part in (text or "").split(",") if text else []:
        name, equals, listed = (piece.strip() for piece in part.partition("="))
        known = (*WHOLE, *WORDS)
        if not equals or name not in known:
            raise InputError(
                f"--sweep {part.strip()!r}: write NAME=VALUE/VALUE with {one_of(known)}{did_you_mean(name, known)}"
            )
        if name in values:
            raise InputError(f"--sweep names {name} twice")
        values[name] = tuple(_value(name, word.strip()) for word in listed.split("/"))
    return Sweep(values)


def _value(name: str, word: str) -> int | str:
    if name in WORDS:
        known = {"precision": PRECISIONS, "parallelism": WAYS,
                 "mode": ("kernels", "sections", "resident", "streaming", "pipelined")}[name]  # fmt: skip
        if word not in known:
            raise InputError(f"--sweep {name}={word}: expected {one_of(known)}{did_you_mean(word, known)}")
        return word
    least, most = 0 if name == "vocabulary" else 1, _MOST.get(name, 10**7)
    if not word.isascii() or not word.isdigit() or len(word) > 12 or not least <= int(word) <= most:
        raise InputError(f"--sweep {name}={word}: expected a whole number from {least} to {most:,}")
    if name == "matrices" and word not in ("2", "3"):
        raise InputError(f"--sweep matrices={word}: expected 2 (plain) or 3 (gated)")
    return int(word)


def modelled_profiles(
    chip: str,
    sweep: str | None,
    phase: str,
    calibration: str,
    settings: Settings,
    tier: int = 1,
    fits: tuple[MachineFit, ...] | None = None,
) -> list[Profile]:
    """Return the profiles of a sweep on a modelled chip.

    Args:
        chip: library name or YAML file of a die.
        sweep: sizes; by default a decoder-block sweep over layers and widths (tier 1), or one-factor sweeps over chips,
            batch and precision (tier 2).
        phase: `"training"`, `"prefill"` or `"decode"`.
        calibration: library name or YAML file, or `FITTED`: what is fitted to the chip itself, and the library's
            `measured` for the rest.
        settings: counting of FLOPs, and the stack of a die without memory.
        tier: whose defaults hold.
        fits: of the chip, in place of the library's.

    Raises:
        InputError: unknown names, or a sweep of more than 20,000 cases.
    """
    if phase not in PHASES:
        raise InputError(f"phase {phase!r}: expected {one_of(PHASES)}")
    chiplet = load_chiplet(chip)
    stack = load_memory(settings.stack) if chiplet.memory_bytes <= 0 else None
    fitted = calibration == FITTED
    own = fits if fits is not None else load_machine_fits(str(chip)) if fitted else ()
    calibrations = load_calibration(UNDER_FITS if fitted else calibration)
    machine = Machine(chiplet, calibrations, stack, settings.counting, own)
    parsed = parse_sweep(sweep)
    cases = _tier1_cases(parsed, chiplet, phase) if tier == 1 else _tier2_cases(parsed, chiplet, phase)
    named = [modelled(machine, case) for case in cases]
    return [replace(profile, platform=str(chip)) for profile in named]


def _ways(sweep: Sweep, chiplet: Chiplet, chips: int) -> tuple[str, ...]:
    if chips == 1:
        return ("",)
    if sweep.values.get("parallelism"):
        return tuple(str(way) for way in sweep.get("parallelism"))
    if chiplet.execution == "pipelined":
        return ("pipeline",)
    return ("weight-streaming",) if chiplet.execution == "resident" else ("tensor",)


def _tier1_cases(sweep: Sweep, chiplet: Chiplet, phase: str) -> list[Case]:
    usual = PIPELINE_CHIPS if chiplet.execution == "pipelined" else 1
    filled = Sweep(
        {
            "layers": (1, 12, 24, 48, 96), "hidden": (768, 1536, 3072), "batch": (16,), "sequence": (1024,),
            "chips": (usual,), "precision": (chiplet.matmul_format,), **sweep.values,
        }
    )  # fmt: skip
    return _product(filled, chiplet, phase)


def _tier2_cases(sweep: Sweep, chiplet: Chiplet, phase: str) -> list[Case]:
    """The product of what is given; what is not is varied alone around a stack of 12 layers of width 768."""
    pipelined = chiplet.execution == "pipelined"
    fixed: dict[str, tuple[int | str, ...]] = {
        "layers": (12,), "hidden": (768,), "batch": (64,), "sequence": (1024,), "precision": (chiplet.matmul_format,),
        "chips": (PIPELINE_CHIPS if pipelined else 1,), **sweep.values,
    }  # fmt: skip
    formats = tuple(name for name in ("fp32", "fp16", "bf16", "mixed") if name != chiplet.matmul_format)
    varied: dict[str, tuple[int | str, ...]] = {
        "chips": (1, 2, 4, 8, 16, 32),
        "batch": (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024),
        "precision": (chiplet.matmul_format, *formats),
    }
    cases = _product(Sweep(fixed), chiplet, phase)
    for name, values in varied.items():
        if name not in sweep.values:
            cases += _product(Sweep({**fixed, name: values}), chiplet, phase, every_way=name == "chips")
    return list(dict.fromkeys(cases))


def _product(sweep: Sweep, chiplet: Chiplet, phase: str, every_way: bool = False) -> list[Case]:
    names = ("layers", "hidden", "batch", "sequence", "precision", "chips")
    lists = [sweep.get(name) for name in names]
    shapes = [sweep.get(name, 0) for name in ("vocabulary", "heads", "ffn", "kv_width")]
    extra = [sweep.get("matrices", 2), sweep.get("mode", "")]
    size = 1
    for values in (*lists, *shapes, *extra):
        size *= len(values)
    if size > _MOST_CASES:
        raise InputError(f"--sweep makes {size:,} cases; {_MOST_CASES:,} at most")
    cases = []
    for row in product(*lists, *shapes, *extra):
        layers, hidden, batch, sequence, precision, chips, vocabulary, heads, ffn, kv_width, matrices, mode = row
        shape = ModelShape("", int(layers), int(hidden), int(heads) or None, int(kv_width) or None, int(ffn) or None,
                           int(matrices), int(vocabulary) or None)  # fmt: skip
        ways = _every_way(sweep, chiplet, int(chips)) if every_way else _ways(sweep, chiplet, int(chips))
        cases += [
            Case(shape, float(batch), int(sequence), str(precision), phase, int(chips), way, str(mode)) for way in ways
        ]
    return cases


def _every_way(sweep: Sweep, chiplet: Chiplet, chips: int) -> tuple[str, ...]:
    if chips == 1 or sweep.values.get("parallelism"):
        return _ways(sweep, chiplet, chips)
    own = {"pipelined": ("pipeline",), "resident": ("weight-streaming",)}.get(chiplet.execution, ("tensor",))
    return ("data", *own)
