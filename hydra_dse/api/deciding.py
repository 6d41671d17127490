"""Which choices decide, which task map serves a load that shifts, and how sure a front is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hydra_dse.api.runs import StudyRun, drawn
from hydra_dse.config import load_experiment
from hydra_dse.design.experiment import Experiment
from hydra_dse.errors import Fault, InputError, did_you_mean, one_of
from hydra_dse.studies.dynamic import DynamicResult
from hydra_dse.studies.dynamic import dynamic as run_dynamic
from hydra_dse.studies.front_uncertainty import SLOW_MEMORY, UncertaintyResult
from hydra_dse.studies.front_uncertainty import uncertainty as run_uncertainty
from hydra_dse.studies.variance import EffectRow, decompose

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Effects:
    """Shares of the variance over a space, by factor."""

    name: str
    rows: tuple[EffectRow, ...]

    def frame(self) -> pd.DataFrame:
        """One row per load, response and factor, as in the file of `--out`.

        Indices are shares of the variance of the response's natural logarithm, with 95 % intervals; `spread` is the
        standard deviation of that logarithm.
        """
        import pandas as pd

        return pd.DataFrame([vars(row) for row in self.rows])

    def figure(self, response: str = "saturation") -> Figure:
        """Bars of the total effects on a response with 95 % intervals, a group for each factor, a bar for each load.

        Raises:
            InputError: no such response.
        """
        from hydra_dse.report.charts import COLOURS, Axis, Bar, BarRow, Bars
        from hydra_dse.report.figures import figure_of

        known = list(dict.fromkeys(row.response for row in self.rows))
        if response not in known:
            raise InputError(
                Fault(f"no response {response!r}{did_you_mean(response, known)}; there are {one_of(known)}")
            )
        mine = [row for row in self.rows if row.response == response]
        loads = list(dict.fromkeys((row.model, row.workload) for row in mine))
        groups: dict[str, list[Bar]] = {}
        for row in mine:
            place = loads.index((row.model, row.workload))
            bar = Bar(0.0, row.total, place % COLOURS, " ".join(loads[place]), row.total_low, row.total_high)
            groups.setdefault(row.factor, []).append(bar)
        rows = tuple(BarRow(factor, tuple(bars)) for factor, bars in groups.items())
        return figure_of(Bars(Axis(f"total effect on {response} [share of the variance]"), rows))


def variance(
    experiment: str | Path,
    overrides: Sequence[str] = (),
    *,
    quick: bool = False,
    workers: int = 1,
    cluster: str | None = None,
) -> Effects:
    """Say which choices of a space decide: total and first-order effects on saturation and mean TTFT.

    Args:
        experiment: a file or a bundled name, with a section `variance`.
        overrides: `key=value`.
        quick: the file's quick variant.
        workers: processes; a script that asks for several needs `if __name__ == "__main__":`.
        cluster: address of a Dask scheduler whose workers estimate instead.

    Raises:
        InputError: a fault of an input.
        NothingFeasible: no row of a load is feasible throughout.
    """
    from hydra_dse.config import load_variance

    study = load_variance(experiment, overrides, quick=quick)
    return Effects(study.name, tuple(decompose(study, workers=workers, cluster=cluster)))


@dataclass(frozen=True)
class TaskMaps:
    """One package under several task maps, on loads at rest and on shifting ones, in simulation."""

    path: Path
    result: DynamicResult

    def frame(self) -> pd.DataFrame:
        """One row per load, task map and metric: `unit`, `value` and the ends of its 95 % interval.

        `share_of_max_rate` and `rate_requests_per_s` say how much is offered, `cycle_s` how fast the mix shifts (NaN at
        rest).
        """
        import pandas as pd

        from hydra_dse.results import metric

        columns = ["share_of_max_rate", "rate_requests_per_s", "load", "cycle_s", "task_map"]
        columns += ["metric", "unit", "value", "low", "high"]
        rows = [
            (row.share, row.rate_per_s, row.load.name, row.load.cycle_s, row.task_map, name, metric(name).unit, *value)
            for row in self.result.rows
            for name, value in row.values.items()
        ]
        return pd.DataFrame(rows, columns=columns).astype({"cycle_s": float})

    def recovery(self) -> pd.DataFrame:
        """One row per shifting load, task map and phase: `recovery_s`, the time after which the promise is kept again.

        0 where it is never broken, NaN where it is broken until the next shift.
        """
        import pandas as pd

        columns = ["share_of_max_rate", "load", "cycle_s", "task_map", "phase", "recovery_s"]
        rows = [
            (row.share, row.load.name, row.load.cycle_s, row.task_map, phase, value)
            for row in self.result.rows
            for phase, value in enumerate(row.recovery_s, start=1)
        ]
        return pd.DataFrame(rows, columns=columns)

    def gains(self) -> pd.DataFrame:
        """One row per load and task map but the first: what it gains on the first, as in `dynamic_gains.csv`."""
        import pandas as pd

        from hydra_dse.studies.dynamic_files import GAINS

        return pd.read_csv(self.path / GAINS)

    def breakeven(self) -> pd.DataFrame:
        """One row per share of the highest rate and task map but the first.

        `pays_from_cycle_s` is the shortest cycle of shifts from which on the map pays at all longer ones, NaN where at
        none that was tried; `not_at_cycle_s` the longest at which it does not, NaN where it pays at all.
        """
        import pandas as pd

        from hydra_dse.studies.dynamic_tables import breakeven

        settings = self.result.settings
        rows = [
            (share, task_map, *breakeven(self.result.gains, task_map, share))
            for share in settings.loads
            for task_map in settings.task_maps[1:]
        ]
        columns = ["share_of_max_rate", "task_map", "pays_from_cycle_s", "not_at_cycle_s"]
        return pd.DataFrame(rows, columns=columns).astype(dict.fromkeys(columns[2:], float))

    def figure(self, metric: str = "slo_attainment", share: float | None = None) -> Figure:
        """A metric over the length of the cycle, a line with 95 % intervals for each task map.

        Args:
            metric: one of `frame()`.
            share: of the highest rate; by default the largest that was offered.

        Raises:
            InputError: no such metric, or no such share.
        """
        from hydra_dse.report.cycles import over_cycles
        from hydra_dse.report.figures import figure_of

        settings = self.result.settings
        known = list(self.result.rows[0].values)
        if metric not in known:
            raise InputError(Fault(f"no metric {metric!r}{did_you_mean(metric, known)}; there are {one_of(known)}"))
        offered = max(settings.loads) if share is None else share
        if offered not in settings.loads:
            there = one_of([f"{one:g}" for one in settings.loads])
            raise InputError(Fault(f"no share {offered:g} of the highest rate was offered; there are {there}"))
        measured = {
            task_map: [
                (row.load.cycle_s, *row.values[metric])
                for row in self.result.rows
                if (row.share, row.task_map) == (offered, task_map) and row.load.cycle_s is not None
            ]
            for task_map in settings.task_maps
        }
        return figure_of(over_cycles(metric, measured))


def dynamic(
    experiment: Experiment | str | Path,
    out: str | Path,
    overrides: Sequence[str] = (),
    *,
    quick: bool = False,
    workers: int = 1,
    resume: bool = False,
    cluster: str | None = None,
) -> TaskMaps:
    """Compare task maps on one package under loads at rest and shifting ones, in simulation with equal requests.

    Args:
        experiment: an object, a file or a bundled name, with a section `dynamic`.
        out: new or empty, or with `resume` the directory of an unfinished study.
        overrides: `key=value`, for what is named, not for an object.
        quick: the file's quick variant, of what is named.
        workers: processes; a script that asks for several needs `if __name__ == "__main__":`.
        resume: go on with an unfinished study.
        cluster: address of a Dask scheduler whose workers simulate instead; they must see `out`.

    Raises:
        InputError: a fault of an input, or no section `dynamic`.
        NothingFeasible: no design keeps the promises of the mean mix at any rate.
        Interrupted: stopped; `resume` goes on.
    """
    if not isinstance(experiment, Experiment):
        experiment = load_experiment(experiment, overrides, quick=quick)
    elif overrides or quick:
        raise InputError(Fault("overrides and quick change experiments of files; this one is an object"))
    result = run_dynamic(experiment, out, workers=workers, resume=resume, cluster=cluster)
    return TaskMaps(result.run_dir, result)


@dataclass(frozen=True)
class FrontUncertainty:
    """The front of a run under drawn calibrations."""

    path: Path
    result: UncertaintyResult

    def frame(self) -> pd.DataFrame:
        """One row per design that is in front in some draw, the surest of the front first.

        As in `front_uncertainty.csv`; probabilities and regrets are shares, objectives are in the units that
        `attrs["units"]` names by column.
        """
        import pandas as pd

        from hydra_dse.results import metric
        from hydra_dse.studies.front_uncertainty_files import UNCERTAINTY

        table = pd.read_csv(self.path / UNCERTAINTY)
        names = [name for name in map(str, table) if name.partition(":")[0] in self.result.objectives]
        table.attrs["units"] = {name: metric(name.partition(":")[0]).unit for name in names}
        return table

    def comparisons(self) -> pd.DataFrame:
        """One row per objective and two designs of the front: their ratio with its 90 % interval, and if it is decided.

        As in `comparisons.csv`.
        """
        import pandas as pd

        from hydra_dse.studies.front_uncertainty_files import COMPARISONS

        return pd.read_csv(self.path / COMPARISONS)

    def figure(self) -> Figure:
        """Bars of how likely each design is in front."""
        from hydra_dse.api.reading import run_at
        from hydra_dse.report.uncertainty import uncertainty_section

        return drawn(uncertainty_section(run_at(self.path)).plots, None)


def uncertainty(
    run: StudyRun | str | Path,
    *,
    draws: int = 200,
    memory: float = SLOW_MEMORY,
    workers: int = 1,
    cluster: str | None = None,
) -> FrontUncertainty:
    """Judge the front of a run under calibrations drawn from their intervals; one that was cut off goes on.

    Args:
        run: a run or its directory.
        draws: calibrations to draw; more add to fewer.
        memory: factor on the bandwidth of every stack in the repeat with slower memories.
        workers: processes; a script that asks for several needs `if __name__ == "__main__":`.
        cluster: address of a Dask scheduler whose workers score instead; they must see the run.

    Raises:
        InputError: no run directory, a corrupt one, or no such number.
        NothingFeasible: the run has no feasible design.
        Interrupted: stopped; the draws that are done are kept.
    """
    if draws < 1 or not 0.0 < memory <= 1.0:
        raise InputError(Fault(f"got draws={draws}, memory={memory:g}; expected draws ≥ 1 and 0 < memory ≤ 1"))
    path = run.path if isinstance(run, StudyRun) else Path(run)
    result = run_uncertainty(path, draws=draws, memory=memory, workers=workers, cluster=cluster)
    return FrontUncertainty(result.run_dir, result)
