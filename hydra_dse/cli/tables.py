"""Tables for people: rich on a terminal, plain text in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hydra_dse.results import Components, Evaluation, metric
from hydra_dse.results.text import number, span


class _Console(Console):
    """Leaves a closed pipe to `main`, as for everything else that is printed."""

    def on_broken_pipe(self) -> None:
        """Pass it on; rich would end the process with 1."""
        raise BrokenPipeError


def console() -> Console:
    """A console on standard output; wide and without control characters when it is not a terminal."""
    terminal = sys.stdout.isatty()
    return _Console(width=None if terminal else 200, highlight=False, soft_wrap=False, emoji=False, markup=False)


def heading(name: str) -> str:
    """Column heading of a metric: its label over its unit."""
    found = metric(name)
    return f"{found.label}\n[{found.unit}]"


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> None:
    """Print rows of strings; the first `left` columns are aligned left, the others right."""
    table = Table(title=title, title_justify="left", title_style="bold", header_style="bold", box=SIMPLE_HEAD)
    for index, column in enumerate(columns):
        table.add_column(Text(column), justify="left" if index < left else "right", no_wrap=index == 0, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    out = console()
    if out.is_terminal:
        out.print(table)
        return
    with out.capture() as captured:
        out.print(table)
    # rich fills every row to the width of the table; whoever reads a pipe wants no blanks at the end of a line.
    sys.stdout.write("".join(f"{line.rstrip()}\n" for line in captured.get().splitlines()))


def print_evaluation(title: str, evaluation: Evaluation) -> None:
    """Print metrics with units and intervals, then violations and notes."""
    out = console()
    rows = []
    for name, value in evaluation.metrics.items():
        low_high = evaluation.intervals.get(name)
        interval = span(*low_high) if low_high and value is not None else ""
        rows.append((name, number(value), metric(name).unit, interval))
    level = "90 % interval" if evaluation.source == "estimated" else "95 % CI"
    print_table(f"{title} ({evaluation.source})", ("metric", "value", "unit", level), rows)
    if not evaluation.feasible:
        out.print("infeasible:")
        for violation in evaluation.violations:
            out.print(f"  {violation}")
    for note in evaluation.notes:
        out.print(f"note: {note}")


def print_components(components: Components) -> None:
    """Print utilisation and power of every component, and power by cause."""
    rows = [
        (
            part.name,
            part.kind,
            part.place,
            f"{100 * part.utilization:.1f} %",
            number(part.dynamic_w),
            number(part.static_w),
        )
        for part in components.parts
    ]
    print_table("Components", ("component", "kind", "place", "busy", "dynamic W", "static W"), rows, left=3)
    total = sum(components.power_w.values())
    causes = [
        (cause, number(power), f"{100 * power / total:.1f} %" if total else "n/a", number(power * components.seconds))
        for cause, power in components.power_w.items()
    ]
    causes.append(("all", number(total), "100.0 %" if total else "n/a", number(total * components.seconds)))
    title = f"Power and energy over {number(components.seconds)} s"
    print_table(title, ("spent on", "W", "share", "J"), causes)
