"""What a report says, as data: sections of paragraphs, tables and plots.  `page` and `figures` show it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hydra_dse.report.charts import Plot


@dataclass(frozen=True)
class Table:
    """A table of texts; the first `text_columns` columns are text, the others numbers.

    Attributes:
        columns, rows: texts; what follows a line break (a unit, an interval) is set small below the rest.
        wrap_last: the last column holds long words.
        designs: id of the design of each row, where a reader may select it; the table can be sorted and filtered.
        order: value to sort each cell by, as the rows; empty where the text is enough.
    """

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    text_columns: int = 1
    wrap_last: bool = False
    designs: Sequence[str] = ()
    order: Sequence[Sequence[object]] = ()


@dataclass(frozen=True)
class Section:
    """A part of the report.

    Attributes:
        absent: why there is nothing to show; the section is then named at the end of the page only.
        explorer: its plots and its first table are of designs that a reader selects, with a panel of details.
        choices: sections of which a reader opens one, the first is open.
    """

    heading: str
    paragraphs: tuple[str, ...] = ()
    plots: tuple[Plot, ...] = ()
    tables: tuple[Table, ...] = ()
    absent: str = ""
    explorer: bool = False
    choices: tuple[Section, ...] = ()

    @property
    def all_plots(self) -> tuple[Plot, ...]:
        """Its plots, then those of its choices."""
        return (*self.plots, *(plot for choice in self.choices for plot in choice.all_plots))


@dataclass(frozen=True)
class Detail:
    """A design as the panel of details shows it: rows of metric, unit, estimate, simulation and error, as texts."""

    design: str
    title: str
    parameters: tuple[tuple[str, str], ...]
    metrics: tuple[tuple[str, str, str, str, str], ...]


@dataclass(frozen=True)
class Report:
    """A whole report."""

    title: str
    subtitle: str
    sections: tuple[Section, ...]
    details: tuple[Detail, ...] = ()
    recommended: str = ""

    @property
    def plots(self) -> tuple[Plot, ...]:
        """All plots in order."""
        return tuple(plot for section in self.sections for plot in section.all_plots)
