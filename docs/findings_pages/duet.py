"""A prefill and a decode package beside one package at equal cost."""

from __future__ import annotations

from collections.abc import Iterator

from findings_pages.run import Row, Run, Study, span, stored_rows

REFERENCE = "two packages"
RUNS = {
    "duet-or-one": Run(
        "duet-or-one.csv",
        "hydra-dse compare duet-or-one",
        "Nemotron-H-8B under chat of Azure, arXiv summaries and long answers, 2,000 designs a search, 300 requests",
        False,
        REFERENCE,
    ),
}
RATIOS = ("max_rate", "max_rate_per_w", "max_rate_per_usd", "ttft_at_0.8_of_reference")


def figures() -> Iterator[str]:
    """What each contender reaches, what it draws and costs, and its ratios to two packages."""
    heads = ["workload", "contender", "highest rate, req/s", "power, W", "cost, USD", "without design and masks, USD"]
    heads += ["rate", "per W", "per USD", "per USD without design and masks", "TTFT at 0.8 of the rate of two packages"]
    yield "| " + " | ".join(heads) + " |"
    yield "|" + "---|" * len(heads)
    rows = stored_rows("duet-or-one.csv")
    for row in rows:
        cells = [row["workload"], row["contender"], *(f"{float(row[name]):,.4g}" for name in _ABSOLUTE)]
        if row["contender"] == REFERENCE:
            cells += ["1"] * 5
        else:
            first, *rest = (_told(row, f"ratio:{name}") for name in RATIOS)
            base = next(one for one in rows if (one["contender"], one["workload"]) == (REFERENCE, row["workload"]))
            cells += [first, *rest[:2], _recurring(row, base), rest[2]]
        yield "| " + " | ".join(cells) + " |"


_ABSOLUTE = ("max_rate_requests_per_s", "power_w", "unit_cost_usd", "recurring_usd")


def _told(row: Row, name: str) -> str:
    """A ratio with its interval, and whether it decides."""
    if not row[name] or row[name] == "nan":
        return "n/a"
    low, high = float(row[f"{name}:low"]), float(row[f"{name}:high"])
    return span(row, name) + (" undecided" if low <= 1.0 <= high else "")


def _recurring(row: Row, base: Row) -> str:
    """Ratio of rate over what is made again for every system; costs have no spread, so the interval is the rate's."""
    cheaper = float(base["recurring_usd"]) / float(row["recurring_usd"])
    name = "ratio:max_rate"
    return _told({key: f"{float(row[key]) * cheaper}" for key in (name, f"{name}:low", f"{name}:high")}, name)


def chosen() -> Iterator[str]:
    """The designs."""
    yield "| workload | contender | design |"
    yield "|---|---|---|"
    for row in stored_rows("duet-or-one.csv"):
        point = row["parameters"].strip("{}").replace('"', "")
        yield f"| {row['workload']} | {row['contender']} | {point} |"


def _body() -> Iterator[str]:
    yield from figures()
    yield ""
    yield from chosen()


STUDIES = (
    Study(
        "duet-or-one",
        "A prefill and a decode package, or one package",
        "Two packages joined by a fabric, after DUET, beside one package with two pools and with one pool, of HYDRA's "
        "dies of one node, all at a cost of making of at most 3,500 USD; at 0.8 of their highest rates they draw 252 "
        "to 321 W (rates above 400 W would not count). At this cost and 100,000 systems splitting does not pay: under "
        "chat two packages and one package with two pools reach the same rate (0.99, undecided), though one pool only "
        "0.84; under arXiv summaries one package with two pools reaches 1.29 times as much, under long answers 1.17, "
        "and one pool 1.41. The searches of two packages are not exhausted: of all 740 designs of one die type near "
        "the bound the best is estimated at 6.36 requests/s under arXiv summaries, where the search had 5.85, which "
        "leaves one package 1.18 times as much (estimated); under long answers dies and stacks for decode are at the "
        "end of their range. All chose one die type for everything: a second one does not earn its masks. What two "
        "packages lose is design and masks (under chat 2,102 against 1,434 USD a system: a second interposer and a "
        "port die); what they gain is assembly, as a bad bond (0.99 good, assumed) costs fewer good dies. Without "
        "design and masks two packages are ahead per dollar in all but one pair, which is undecided: in large volumes "
        "the answer may turn, but no search was bounded by that cost, nor were several small packages without a split "
        "compared. Latency and density of the fabric are assumed, costs modelled.",
        _body,
    ),
)
"""Parts of the page of findings, one module a study."""
