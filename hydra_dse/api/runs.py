"""A run directory as tables and figures."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hydra_dse.design.experiment import Experiment
from hydra_dse.design.nouns import Design
from hydra_dse.errors import Fault, InputError, did_you_mean, one_of
from hydra_dse.studies import ValidationResult, design_of_run
from hydra_dse.studies.run_directory import DESIGNS
from hydra_dse.studies.runs import row_named

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from hydra_dse.report.charts import Plot
    from hydra_dse.report.run import Run


@dataclass(frozen=True)
class StudyRun:
    """A run directory with scored designs, read again when a file of it has changed: what a validation adds is seen."""

    path: Path

    @property
    def _read(self) -> Run:
        from hydra_dse.api.reading import run_at

        return run_at(self.path)

    @property
    def experiment(self) -> Experiment:
        """What was searched."""
        return self._read.experiment

    @property
    def recommended(self) -> str:
        """Id of the design of the front nearest to the ideal point; of the simulated ones, once there are any.

        Raises:
            InputError: no design is feasible.
        """
        run = self._read
        if run.recommended < 0:
            raise InputError(Fault("no design of the run is feasible", file=str(self.path)))
        return run.identity(run.recommended)

    @property
    def front(self) -> tuple[str, ...]:
        """Ids of the estimated front, best first objective first."""
        run = self._read
        return tuple(run.identity(row) for row in run.front)

    def design(self, identity: str) -> Design:
        """A design by id, or by its first digits.

        Raises:
            InputError: no such design.
        """
        from hydra_dse.studies.comparison.stored import is_comparison

        if is_comparison(self.path):
            return design_of_run(self.path, identity)
        run = self._read
        return run.design(row_named(run.designs, identity, str(self.path / DESIGNS)))

    def frame(self) -> pd.DataFrame:
        """One row per scored design, in order: `design`, `front`, `feasible`, parameters, estimated metrics."""
        import pandas as pd

        run = self._read
        designs, rows = run.designs, set(run.front)
        columns: dict[str, object] = {"design": list(designs.scores.identities)}
        columns["front"] = [row in rows for row in range(len(designs))]
        columns["feasible"] = designs.scores.violation <= 0
        for name in designs.points[0]:
            columns[name] = [point[name] for point in designs.points]
        return pd.DataFrame(columns | dict(designs.scores.metrics))

    def figure(self, name: str | None = None) -> Figure:
        """A figure of the report by the name of its file in `plots/`; the Pareto front where none is named.

        Raises:
            InputError: no such figure of this run.
        """
        from hydra_dse.report.fronts import front_section

        run = self._read
        plots = front_section(run).plots
        if not plots and name is None:
            raise InputError(Fault("no design of the run is feasible", file=str(self.path)))
        if name is not None and all(plot.stem != name for plot in plots):
            from hydra_dse.report.contents import report_of

            plots = report_of(run).plots
        return drawn(plots, name)

    def report(self) -> Path:
        """Write `plots/` and `report.html` of the run; return the page's path."""
        from hydra_dse.report import build_report

        return build_report(self.path)


@dataclass(frozen=True)
class Validation:
    """The designs of a run that were simulated, beside their estimates."""

    path: Path
    result: ValidationResult

    def frame(self) -> pd.DataFrame:
        """One row per design and metric, as in `validation.csv`."""
        import pandas as pd

        from hydra_dse.studies.validation_table import COLUMNS

        rows = [[getattr(row, name) for name in COLUMNS] for row in self.result.rows]
        return pd.DataFrame(rows, columns=list(COLUMNS))

    def errors(self) -> pd.DataFrame:
        """Median absolute errors of the estimates: `metric`, `band` of load, `designs`, `median`."""
        import pandas as pd

        rows = [(error.metric, error.band, error.designs, error.median) for error in self.result.errors]
        return pd.DataFrame(rows, columns=["metric", "band", "designs", "median"])

    def figure(self, metric: str | None = None) -> Figure:
        """Errors of the estimates by metric, or simulation against estimate of one metric.

        Raises:
            InputError: no such figure.
        """
        from hydra_dse.api.reading import run_at
        from hydra_dse.report.validation import validation_section

        plots = validation_section(run_at(self.path)).plots
        return drawn(plots, "errors" if metric is None else f"parity_{metric}")


def drawn(plots: tuple[Plot, ...], name: str | None) -> Figure:
    """The figure of a name among some, the first one where none is named.

    Raises:
        InputError: no such figure.
    """
    from hydra_dse.report.figures import figure_of

    stems = [plot.stem for plot in plots]
    if not plots or (name is not None and name not in stems):
        there = f"there are {one_of(stems)}" if stems else "there is none"
        raise InputError(Fault(f"no figure {name!r}{did_you_mean(str(name), stems)}; {there}"))
    return figure_of(plots[0 if name is None else stems.index(name)].chart)
