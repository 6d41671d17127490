"""Machine fits of the library by chip: `hydra_dse/library/machines.yaml`."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Literal

from pydantic import Field, model_validator

from hydra_dse.config.faults import at_key
from hydra_dse.config.fields import Name, NonNegativeNumber, Section, Text
from hydra_dse.config.library import LIBRARY
from hydra_dse.config.loader import load_yaml, validate
from hydra_dse.errors import did_you_mean
from hydra_dse.hardware.machine_fit import MACHINE_PARAMETERS, FittedValue, MachineFit


class FittedValueSection(Section):
    """A value with its interval."""

    value: NonNegativeNumber
    low: NonNegativeNumber
    high: NonNegativeNumber
    basis: Literal["measured", "fitted", "transferred", "assumption"]
    source: Text


class MachineFitSection(Section):
    """One mode and phase of a chip."""

    mode: Literal["kernels", "sections", "resident", "streaming", "pipelined"]
    phase: Literal["training", "prefill", "decode"]
    parameters: dict[str, FittedValueSection]

    @model_validator(mode="after")
    def _known(self) -> MachineFitSection:
        for name in self.parameters:
            if name not in MACHINE_PARAMETERS:
                raise at_key("parameters", f"no parameter {name!r}{did_you_mean(name, MACHINE_PARAMETERS)}")
        return self


class MachinesSection(Section):
    """The file."""

    machines: dict[Name, Annotated[list[MachineFitSection], Field(min_length=1)]]


def load_machine_fits(chip: str) -> tuple[MachineFit, ...]:
    """Return what is fitted to a chip of the library; empty where nothing is.

    Raises:
        InputError: every fault of the file.
    """
    return _machines().get(chip, ())


@cache
def _machines() -> dict[str, tuple[MachineFit, ...]]:
    section = validate(load_yaml(LIBRARY / "machines.yaml"), MachinesSection)
    return {
        str(chip): tuple(
            MachineFit(
                str(chip),
                fit.mode,
                fit.phase,
                {
                    name: FittedValue(each.value, each.low, each.high, each.basis, each.source)
                    for name, each in fit.parameters.items()
                },
            )
            for fit in fits
        )
        for chip, fits in section.machines.items()
    }
