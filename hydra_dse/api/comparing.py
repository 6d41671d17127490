"""Contenders side by side in simulation, and how designs hold for other models and loads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hydra_dse.api.runs import StudyRun, drawn
from hydra_dse.config import load_experiment
from hydra_dse.design.experiment import Experiment
from hydra_dse.errors import Fault, InputError
from hydra_dse.studies.comparison import COMPARED, POINTS, SUMMARY, ComparisonResult
from hydra_dse.studies.comparison import compare as run_comparison
from hydra_dse.studies.robustness import RobustnessResult
from hydra_dse.studies.robustness import robustness as run_robustness

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Contenders:
    """Designs, searched baselines and variants that served the same requests in simulation."""

    path: Path
    result: ComparisonResult

    def frame(self) -> pd.DataFrame:
        """One row per case and contender, as in `compare.csv`: figures with intervals, ratios to the reference."""
        return _table(self.path / COMPARED)

    def points(self) -> pd.DataFrame:
        """One row per contender and rate, as in `points.csv`: latencies with intervals."""
        return _table(self.path / POINTS)

    def summary(self) -> pd.DataFrame:
        """Statistics of the ratios over all cases with bootstrap intervals, as in `summary.csv`."""
        return _table(self.path / SUMMARY)

    def figure(self, metric: str = "saturation_tokens_per_s") -> Figure:
        """Bars with 95 % intervals of a rate of `frame()`, a group for each case.

        Raises:
            InputError: no such rate.
        """
        from hydra_dse.report.charts import COLOURS, Axis, Bar, BarRow, Bars
        from hydra_dse.report.figures import figure_of
        from hydra_dse.results import metric as known

        names = list(dict.fromkeys(row.measured.contender for row in self.result.rows))
        groups: dict[str, list[Bar]] = {}
        for row in self.result.rows:
            if metric not in row.rates:
                raise InputError(Fault(f"no figure of {metric!r}; there are {', '.join(row.rates)}"))
            value, half = row.rates[metric]
            bars = groups.setdefault(" ".join(dict.fromkeys((row.model, row.workload, row.aim))), [])
            if value == value:
                name = row.measured.contender
                bars.append(Bar(0.0, value, names.index(name) % COLOURS, name, max(0.0, value - half), value + half))
        rows = tuple(BarRow(name, tuple(bars), "" if bars else "none") for name, bars in groups.items())
        return figure_of(Bars(Axis(f"{known(metric).label} [{known(metric).unit}]"), rows))


def compare(
    experiment: str | Path,
    out: str | Path | None = None,
    overrides: Sequence[str] = (),
    *,
    quick: bool = False,
    workers: int = 1,
    resume: bool = False,
    simulator: str = "serving",
) -> Contenders:
    """Set the contenders of an experiment with a section `compare` side by side in simulation, at equal work.

    Args:
        experiment: a file or a bundled name.
        out: new or empty, or with `resume` the directory of an unfinished run; by default `runs/<name>`.
        overrides: `key=value`.
        quick: the file's quick variant: few cases, designs and requests.
        workers: processes; a script that asks for several needs `if __name__ == "__main__":`.
        resume: go on with an unfinished run.
        simulator: name in the entry-point group `hydra_dse.simulators`.

    Raises:
        InputError: a fault of an input.
        Interrupted: stopped; `resume` goes on.
    """
    result = run_comparison(
        experiment, out, overrides=overrides, quick=quick, workers=workers, resume=resume, simulator=simulator
    )
    return Contenders(result.run_dir, result)


@dataclass(frozen=True)
class Robustness:
    """Specialists and generalists in every scenario, and what each keeps of the scenario's own best."""

    path: Path
    result: RobustnessResult

    @property
    def run(self) -> StudyRun:
        """The search over all scenarios as a run: its designs, its front."""
        return StudyRun(self.path)

    def frame(self) -> pd.DataFrame:
        """One row per metric, design and scenario, as in `robustness_cells.csv`."""
        from hydra_dse.studies.robust_files import CELLS

        return _table(self.path / CELLS)

    def matrix(self, metric: str | None = None) -> pd.DataFrame:
        """Retained shares, a row for each role and a column for each scenario; 1 is as good as the specialist.

        Args:
            metric: that the designs were chosen for; by default all at once (`every`), where there are several.

        Raises:
            InputError: no design was chosen for it.
        """
        import pandas as pd

        from hydra_dse.studies.robust_tables import worst_of_each

        cells = worst_of_each(self.result.cells)
        names = list(dict.fromkeys(cell.metric for cell in cells))
        chosen = names[-1] if metric is None else metric
        if chosen not in names:
            raise InputError(Fault(f"no design was chosen for {chosen!r}; there are {', '.join(names)}"))
        shares = {(cell.role, cell.scenario.name): cell.share for cell in cells if cell.metric == chosen}
        roles, places = (list(dict.fromkeys(key[at] for key in shares)) for at in (0, 1))
        rows = [[shares.get((role, place), float("nan")) for place in places] for role in roles]
        return pd.DataFrame(rows, index=pd.Index(roles, name="role"), columns=pd.Index(places, name="scenario"))

    def summary(self) -> pd.DataFrame:
        """Mean and worst share by metric and kind of design, as in `robustness_summary.csv`."""
        from hydra_dse.studies.robust_files import SUMMARY as SUMMARIES

        return _table(self.path / SUMMARIES)

    def figure(self, metric: str | None = None) -> Figure:
        """The heat map of retained shares of a metric; the last one where none is named.

        Raises:
            InputError: no such figure.
        """
        from hydra_dse.api.reading import run_at
        from hydra_dse.report.robustness import robustness_section

        plots = robustness_section(run_at(self.path)).plots
        return drawn(plots, plots[-1].stem if metric is None else f"robustness_{metric}")


def robustness(
    experiment: Experiment | str | Path,
    out: str | Path,
    overrides: Sequence[str] = (),
    *,
    workers: int = 1,
    resume: bool = False,
    simulate: bool = False,
) -> Robustness:
    """Search for specialists and generalists over the scenarios of an experiment.

    Args:
        experiment: an object, a file or a bundled name, with scenarios.
        out: new or empty, or with `resume` the directory of an unfinished study.
        overrides: `key=value`, for what is named, not for an object.
        workers: processes.
        resume: go on with an unfinished study.
        simulate: also simulate the designs chosen for all metrics at once.

    Raises:
        InputError: a fault of an input, or no scenarios.
        NothingFeasible: nothing serves one of the scenarios.
        Interrupted: stopped; `resume` goes on.
    """
    if not isinstance(experiment, Experiment):
        experiment = load_experiment(experiment, overrides)
    elif overrides:
        raise InputError(Fault("overrides change experiments of files; this one is an object"))
    result = run_robustness(experiment, out, workers=workers, resume=resume, simulate=simulate)
    return Robustness(result.run_dir, result)


def _table(path: Path) -> pd.DataFrame:
    import pandas as pd

    return pd.read_csv(path)
