"""Where the time of an iteration goes: a waterfall over operator classes for each typical iteration of a design."""

from __future__ import annotations

from collections.abc import Sequence

from hydra_dse.estimator.explain import TypicalIteration
from hydra_dse.report.charts import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, SKY, YELLOW, Axis, Bar, BarRow, Bars, Plot
from hydra_dse.report.records import Section, Table
from hydra_dse.report.run import Run
from hydra_dse.report.served import Served, sections_of
from hydra_dse.results.text import number

HEADING = "Where the time goes"
_COLOURS = {
    "compute": BLUE, "memory": ORANGE, "network": GREEN, "overhead": RED, "hops": PURPLE, "queue": SKY,
    "iteration": YELLOW,
}  # fmt: skip


def iteration_section(run: Run, loads: Sequence[Served]) -> Section:
    """Waterfalls and the resources that bind, of the recommended design."""
    return sections_of(run, loads, HEADING, _section)


def _section(run: Run, served: Served) -> Section:
    found = served.explanation
    if isinstance(found, str):
        return Section(HEADING, absent=found)
    if not found.iterations:
        return Section(HEADING, absent="; ".join(found.notes) or "the design has no iterations")
    words = (
        f"The mean iteration of each kind in design {run.identity(run.recommended)} under "
        f"{served.workload.name}, as the estimator counts them: "
        "every class of operators takes the longest of compute, memory and network, and the classes follow each other.",
        *found.notes,
    )
    plots = tuple(_waterfall(iteration, served) for iteration in found.iterations)
    return Section(HEADING, words, plots, tuple(_resources(iteration) for iteration in found.iterations))


def _name(iteration: TypicalIteration) -> str:
    return f"{iteration.phase} iteration of pool {iteration.composition.pool}"


def _waterfall(iteration: TypicalIteration, served: Served) -> Plot:
    composition = iteration.composition
    parts = [(time.operator_class, time.time_s, time.binding) for time in composition.times if time.time_s > 0]
    parts += [("start of the iteration", composition.iteration_overhead_s, "iteration")]
    parts += [("wait between batches", composition.queue_s, "queue")]
    rows, data, at = [], [], 0.0
    for name, seconds, binding in parts:
        if seconds <= 0:
            continue
        bar = Bar(1e3 * at, 1e3 * (at + seconds), _COLOURS.get(binding, YELLOW), _group(binding))
        share = seconds / composition.time_s
        rows.append(BarRow(name, (bar,), f"{number(1e3 * seconds, 3)} ms, {100 * share:.0f} %"))
        data.append((name, binding, at, seconds, share))
        at += seconds
    whole = Bar(0.0, 1e3 * composition.time_s, GREY, "all")
    rows.append(BarRow("iteration", (whole,), f"{number(1e3 * composition.time_s, 3)} ms"))
    caption = (
        f"A mean {_name(iteration)}: {composition.tokens:,.4g} tokens in {number(1e3 * composition.time_s, 3)} ms, "
        f"{number(iteration.iterations_per_s, 3)} iterations/s; colours say what binds."
    )
    stem = served.stem(f"iteration_{composition.pool}_{iteration.phase}".replace("/", "-"))
    columns = ("part", "binding", "start_s", "time_s", "share")
    return Plot(stem, _name(iteration).capitalize(), caption, Bars(Axis("time [ms]"), tuple(rows)), columns, data)


def _group(binding: str) -> str:
    return {"iteration": "fixed cost", "queue": "queue"}.get(binding, f"{binding} binds")


def _resources(iteration: TypicalIteration) -> Table:
    rows = [
        (
            item.resource, f"{100 * item.share:.1f} %",
            "n/a" if item.saved_share is None else f"{100 * item.saved_share:.1f} %", item.most_loaded,
        )
        for item in iteration.composition.resources
    ]  # fmt: skip
    columns = ("resource", "share of the time\nin which it binds", "saved if\ntwice as fast", "most loaded")
    return Table(f"Resources of the {_name(iteration)}", columns, rows, 1, wrap_last=True)
