"""Task maps on mixes at rest and on shifting ones: what each gains, how soon it is back, how fast a mix may swing."""

from __future__ import annotations

from collections.abc import Iterator

from findings_pages.run import Row, Run, Study, stored_rows

_COMMAND = "hydra-dse robustness dynamic-task-maps"
_COVERS = "one hybrid model on one package of hydra-24, six runs of 800 or more requests and two cycles or more"
RUNS = {f"task-maps{part}": Run(f"task-maps{part}.csv", _COMMAND, _COVERS, False, "static") for part in ("", "-gains")}
NAMES = {"steady mean": "mean mix", "steady 1": "long in, short out", "steady 2": "short in, long out"}


def table() -> Iterator[str]:
    """SLO attainment and TTFT p99 of each map by load, gains on static that are beyond doubt in bold."""
    gains = {_key(row): row for row in stored_rows("task-maps-gains.csv")}
    rows = stored_rows("task-maps.csv")
    maps = list(dict.fromkeys(row["task_map"] for row in rows))
    yield "| of the highest rate | load | " + " | ".join(f"{one}: met | TTFT p99, s" for one in maps) + " |"
    yield "|---|---|" + "---|---|" * len(maps)
    for share, load in dict.fromkeys((row["share_of_max_rate"], row["load"]) for row in rows):
        cells = []
        for task_map in maps:
            row = next(one for one in rows if _key(one) == (share, load, task_map))
            gain = gains.get((share, load, task_map))
            mark = {"pays": "**", "costs": "_"}.get(gain["verdict"] if gain else "", "")
            cells.append(f"{mark}{_met(row)}{mark} | {float(row['ttft_p99_s']):.3g}")
        yield f"| {float(share):.0%} | {NAMES.get(load, load)} | " + " | ".join(cells) + " |"
    yield ""
    yield from _paired(list(gains.values()))
    yield ""
    yield from _ends(list(gains.values()))
    yield ""
    yield from _recoveries(rows)


def _key(row: Row) -> tuple[str, str, str]:
    return row["share_of_max_rate"], row["load"], row["task_map"]


def _met(row: Row) -> str:
    value, low = float(row["slo_attainment"]), float(row["slo_attainment:low"])
    return f"{value:.3f} ± {value - low:.3f}"


def _paired(gains: list[Row]) -> Iterator[str]:
    """Paired differences under shifting mixes."""
    yield "| of the highest rate | cycle, s | task map | requests met more than under static | TTFT p99, ratio | |"
    yield "|---|---|---|---|---|---|"
    for row in gains:
        if row["cycle_s"]:
            more = _span(row, "attainment_gain", 3)
            share, cycle = f"{float(row['share_of_max_rate']):.0%}", f"{float(row['cycle_s']):g}"
            cells = [share, cycle, row["task_map"], more, _span(row, "ttft_p99_ratio", 2), row["verdict"]]
            yield "| " + " | ".join(cells) + " |"


def _span(row: Row, name: str, digits: int) -> str:
    value, low, high = (float(row[f"{name}{end}"]) for end in ("", ":low", ":high"))
    return f"{value:.{digits}f} ({low:.{digits}f} … {high:.{digits}f})"


def _ends(gains: list[Row]) -> Iterator[str]:
    """From which cycle on each map pays at all longer ones."""
    for share, name in dict.fromkeys((row["share_of_max_rate"], row["task_map"]) for row in gains):
        mine = [row for row in gains if (row["share_of_max_rate"], row["task_map"]) == (share, name) and row["cycle_s"]]
        mine.sort(key=lambda row: float(row["cycle_s"]))
        paying: list[Row] = []
        while len(paying) < len(mine) and mine[-1 - len(paying)]["verdict"] == "pays":
            paying.append(mine[-1 - len(paying)])
        if not paying:
            said = "is not shown to pay at the longest cycle tried"
        elif len(paying) == len(mine):
            said = f"pays at every cycle tried, from {float(paying[-1]['cycle_s']):g} s"
        else:
            short = float(mine[-1 - len(paying)]["cycle_s"])
            said = (
                f"pays at cycles of {float(paying[-1]['cycle_s']):g} s and longer, and is not shown to at {short:g} s"
            )
        yield f"- At {float(share):.0%} {name} {said}."


def _recoveries(rows: list[Row]) -> Iterator[str]:
    """Time to recover by phase at the highest load."""
    share = max((row["share_of_max_rate"] for row in rows), key=float)
    mine = [row for row in rows if row["share_of_max_rate"] == share and row["cycle_s"]]
    yield "Seconds after a shift until 90 % of the requests meet their SLO again until the next, at the higher rate:"
    yield ""
    yield "| cycle, s | task map | after the shift to long in | after the shift to long out |"
    yield "|---|---|---|---|"
    for row in mine:
        cells = [_back(row[f"recovery_s_phase_{number}"]) for number in (1, 2)]
        yield f"| {float(row['cycle_s']):g} | {row['task_map']} | " + " | ".join(cells) + " |"


def _back(cell: str) -> str:
    return f"{float(cell):.3g}" if cell and cell.lower() != "nan" else "never"


TEXT = (
    "One package, the best for the mean mix under the static map whose dies can change roles, serves the same "
    "requests under four maps: mixes at rest, their mean, and a mix that swings between long prompts with short "
    "answers and short prompts with long ones. Met is the share of requests within their SLO; in bold what gains "
    "on static at 95 % confidence, in italics what loses. Loads are shares of the highest rate at which the "
    "package keeps its promises under the mean mix. At 0.5 no mix overloads a pool: the static map keeps the "
    "promise at every cycle, stealing changes nothing, FCFS meets 0.5 to 1 points less under swinging mixes, and "
    "elastic has the shortest tail of TTFT with steps that are 2 to 7 % longer. At 0.8 each mix alone overloads a "
    "pool. Stealing and elastic, which lends decode dies only, pay from cycles of 90 s on; at 60 s both gain 11 "
    "to 14 points, undecided over six runs, and at 20 s nothing is shown to help. Elastic's tail of TTFT is 0.6 "
    "of static's at 20 s and half of it or less from 60 s on. FCFS costs up to 90 s and pays at 180 s. After a "
    "shift to long prompts no map meets the promised 90 % before the next one; after one to long answers stealing "
    "does after 3 to 22.5 s, a quarter to three tenths of the phase, static at 20 s only."
)
STUDIES = (Study("task-maps", "Which task map a shifting mix needs", TEXT, table),)
