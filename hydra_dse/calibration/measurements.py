"""Measured figures in the project's own schema: tables of rows for a form, with their source.

```yaml
tables:
  - form: gemm
    variant: bf16
    chip: h100
    unit: us
    columns: [m, n, k, bytes, speed]
    constants: {bytes: 2, speed: 1}
    source: …
    rows:
      - [1, 4096, 4096, 12.9]
```

A row states the columns that are not constant, in their order, and the measured value last.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from hydra_dse.calibration.chips import chip_figures
from hydra_dse.calibration.dataflow_forms import DATAFLOW_FORMS
from hydra_dse.calibration.kernel_forms import KERNEL_FORMS
from hydra_dse.calibration.nouns import FloatArray, Form, Observations
from hydra_dse.config.document import Document
from hydra_dse.config.fields import Section
from hydra_dse.config.library import LIBRARY
from hydra_dse.config.loader import load_yaml, validate
from hydra_dse.errors import InputError, did_you_mean

FORMS: dict[str, Form] = {form.name: form for form in (*KERNEL_FORMS, *DATAFLOW_FORMS)}
UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "1": 1.0}
SHIPPED = LIBRARY / "measurements"


class TableSection(Section):
    """Rows of one form, measured on one chip."""

    form: str
    variant: str = ""
    chip: str
    unit: Literal["s", "ms", "us", "1"]
    columns: list[str]
    constants: dict[str, float] = Field(default_factory=dict)
    source: str
    rows: Annotated[list[list[float]], Field(min_length=1)]


class MeasurementsSection(Section):
    """A file of measured tables."""

    tables: Annotated[list[TableSection], Field(min_length=1)]


def shipped_files() -> list[Path]:
    """The measurement files inside the package, by name."""
    return sorted(SHIPPED.glob("*.yaml"))


def read_measurements(path: Path) -> list[Observations]:
    """Read a file of measured tables.

    Raises:
        InputError: every fault of the file, with its place.
    """
    document = load_yaml(path)
    section = validate(document, MeasurementsSection)
    return [_table(document, number, table) for number, table in enumerate(section.tables)]


def _table(document: Document, number: int, table: TableSection) -> Observations:
    place = ("tables", number)
    if table.form not in FORMS:
        message = f"no form {table.form!r}{did_you_mean(table.form, FORMS)}; known: {', '.join(FORMS)}"
        raise InputError(document.fault((*place, "form"), message))
    form = FORMS[table.form]
    missing = [name for name in form.columns if name not in table.columns and name not in table.constants]
    if missing:
        raise InputError(document.fault((*place, "columns"), f"form {form.name!r} also needs {', '.join(missing)}"))
    for row_number, row in enumerate(table.rows):
        if len(row) != len(table.columns) + 1 or row[-1] <= 0:
            message = f"needs {len(table.columns)} columns and a positive measured value, has {row}"
            raise InputError(document.fault((*place, "rows", row_number), message))
    return observations(form, table.chip, table.variant, table, UNITS[table.unit])


def observations(form: Form, chip: str, variant: str, table: TableSection, unit: float) -> Observations:
    """Rows of a table as observations."""
    values: FloatArray = np.array(table.rows, dtype=np.float64)
    columns = {name: values[:, number] for number, name in enumerate(table.columns) if name in form.columns}
    for name, value in table.constants.items():
        columns.setdefault(name, np.full(len(values), value))
    return Observations(form, chip_figures(chip), variant, columns, values[:, -1] * unit, table.source)
