"""What a fit is made of: the figures of a chip, a form with few physical parameters, rows measured, and the result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
Columns = Mapping[str, FloatArray]


@dataclass(frozen=True)
class ChipFigures:
    """What a form takes from a chip's specification.

    Attributes:
        name: library name of the chip.
        peak_flops_per_s: dense matrix peak in 16-bit formats.
        memory_bytes_per_s: off-chip bandwidth.
        processors: units that work on a kernel's tiles in parallel (streaming multiprocessors of a GPU); 1 if none.
        chips: how many of them work together.
        source: where `processors` and `chips` come from.
    """

    name: str
    peak_flops_per_s: float
    memory_bytes_per_s: float
    processors: float = 1.0
    chips: float = 1.0
    source: str = ""


@dataclass(frozen=True)
class Parameter:
    """One fitted number; all are positive and fitted in their logarithm.

    Attributes:
        name: key in a calibration file.
        unit: unit of the value, `"1"` for a share.
        start: where the fit starts.
        low, high: physical limits of the value.
        meaning: one line for the documentation.
    """

    name: str
    unit: str
    start: float
    low: float
    high: float
    meaning: str


Prediction = Callable[[FloatArray, Columns, ChipFigures], FloatArray]


@dataclass(frozen=True)
class Form:
    """A physical form of one operator class on one kind of chip.

    Attributes:
        name: key in a calibration file.
        operator_class: what it costs, in the words of `OperatorClass`, or a part of a machine (`"section"`, …).
        columns: what a row must state.
        configuration: columns whose joint value is one configuration, left out together in cross-validation.
        parameters: what is fitted.
        predict: response of each row from parameter values, columns and chip.
        response: what the rows measure, with its unit.
        formula: the form in words.
        family: name that keys of its fits begin with, where it is a variant of another form; its own name where empty.
    """

    name: str
    operator_class: str
    columns: tuple[str, ...]
    configuration: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    predict: Prediction
    response: str
    formula: str
    family: str = ""


@dataclass(frozen=True, eq=False)
class Observations:
    """Rows measured on one chip for one form.

    Attributes:
        form: the form they are to fit.
        chip: where they were measured.
        variant: what else tells tables of one form apart (`"bf16"`, `"gdn"`), or empty.
        columns: the form's columns, each of shape (rows,).
        response: measured values, shape (rows,).
        source: who measured what.
    """

    form: Form
    chip: ChipFigures
    variant: str
    columns: Columns
    response: FloatArray
    source: str

    @property
    def key(self) -> str:
        """Name of the fit in a calibration file."""
        name = self.form.family or self.form.name
        return f"{name}-{self.variant}" if self.variant else name

    def __len__(self) -> int:
        return len(self.response)

    def rows(self, chosen: BoolArray | NDArray[np.int64]) -> Observations:
        """Some of the rows."""
        columns = {name: values[chosen] for name, values in self.columns.items()}
        return Observations(self.form, self.chip, self.variant, columns, self.response[chosen], self.source)

    def configurations(self) -> NDArray[np.int64]:
        """Number of the configuration of each row, shape (rows,)."""
        named = np.column_stack([self.columns[name] for name in self.form.configuration])
        return np.asarray(np.unique(named, axis=0, return_inverse=True)[1]).reshape(-1)

    def predicted(self, values: FloatArray, chip: ChipFigures | None = None) -> FloatArray:
        """What the form says of the rows, shape (rows,), on their chip or another."""
        return self.form.predict(values, self.columns, chip or self.chip)


@dataclass(frozen=True, eq=False)
class Errors:
    """Signed relative errors of rows, `predicted / measured − 1`, shape (rows,)."""

    relative: FloatArray

    @property
    def median(self) -> float:
        """Median of the absolute values."""
        return float(np.median(np.abs(self.relative)))

    @property
    def mean(self) -> float:
        """Mean of the absolute values."""
        return float(np.mean(np.abs(self.relative)))

    @property
    def worst(self) -> float:
        """Largest absolute value."""
        return float(np.max(np.abs(self.relative)))

    @property
    def p90(self) -> float:
        """90th percentile of the absolute values."""
        return float(np.quantile(np.abs(self.relative), 0.9))

    @property
    def bias(self) -> float:
        """Median of the signed values."""
        return float(np.median(self.relative))

    @property
    def spread(self) -> float:
        """One robust standard deviation of log errors: 1.4826 × the median absolute value."""
        return float(1.4826 * np.median(np.abs(np.log1p(np.maximum(self.relative, -0.999)))))


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted form.

    Attributes:
        observations: the rows it was fitted on.
        values, low, high: parameters and their 90 % bootstrap interval, in the order of the form.
        undetermined: names of parameters that the rows do not determine, each with the reason.
        errors: of the rows fitted.
        held_out: of each row when its configuration was left out; None where there is only one.
    """

    observations: Observations
    values: FloatArray
    low: FloatArray
    high: FloatArray
    undetermined: Mapping[str, str]
    errors: Errors
    held_out: Errors | None

    def value(self, name: str) -> float:
        """A parameter by name.

        Raises:
            KeyError: the form has no such parameter.
        """
        names = [parameter.name for parameter in self.observations.form.parameters]
        if name not in names:
            raise KeyError(name)
        return float(self.values[names.index(name)])
