"""JSON and tables of `bench`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass
from typing import Any

from hydra_dse.bench.advice import LayoutAdvice, Relief
from hydra_dse.bench.metrics import Allocation
from hydra_dse.bench.record import Profile
from hydra_dse.bench.roofline import Roofline
from hydra_dse.bench.tier1 import Tier1
from hydra_dse.bench.tier2 import Tier2
from hydra_dse.cli.options import finite
from hydra_dse.cli.tables import console, print_table
from hydra_dse.results.text import number


def plain(value: Any) -> Any:
    """As JSON can say it: dataclasses as objects, infinite numbers as null."""
    if is_dataclass(value) and not isinstance(value, type):
        return {part.name: plain(getattr(value, part.name)) for part in fields(value)}
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return finite(value) if isinstance(value, float) else value


def tier1_json(reports: Sequence[Tier1]) -> dict[str, object]:
    """All profiles under `profiles`, and the metrics of the first that worked at the top as scripts expect them."""
    rows = [_tier1_row(report) for report in reports]
    first = next((row for row, report in zip(rows, reports, strict=True) if not report.profile.failure), rows[0])
    return {**first, "profiles": rows}


def _tier1_row(report: Tier1) -> dict[str, object]:
    profile = report.profile
    said = {
        part.name: plain(getattr(profile, part.name))
        for part in fields(Profile)
        if part.name not in ("units", "memory", "totals", "allocation")
    }
    return {
        "name": profile.name,
        "failure": profile.failure or None,
        "allocation_ratio": {name: each.mean for name, each in report.allocation.items()},
        "allocation": plain(report.allocation),
        "load_imbalance": finite(report.load_imbalance),
        "load_imbalance_unweighted": finite(report.unweighted_imbalance),
        "chip_to_slowest_kernel": finite(report.chip_to_slowest_kernel),
        "effective_use": finite(report.effective_use),
        "achieved_flops_per_s": finite(report.roofline.achieved_flops_per_s) if report.roofline else None,
        "efficiency": finite(report.roofline.efficiency) if report.roofline else None,
        "roofline": plain(report.roofline) if report.roofline else None,
        "advice": {"binding": plain(report.relief), "layout": plain(report.layout)},
        "profile": said,
        "notes": list(report.notes),
    }


def tier2_json(result: Tier2) -> dict[str, object]:
    """The JSON shape of `bench tier2`."""
    return {
        "scaling": [asdict(each) for each in result.scaling],
        "batch_saturation": [plain(each) for each in result.batch_saturation],
        "precision_gain": [asdict(each) for each in result.precision_gain],
        "failures": [asdict(each) for each in result.failures],
        "advice": tier2_advice(result),
    }


def tier2_advice(result: Tier2) -> list[str]:
    """What tier 2 recommends: the smallest saturating batch, and the degree after which scaling falls."""
    found = []
    for each in result.batch_saturation:
        smallest, most = each.smallest_saturating_batch, each.points[-1][0]
        what = f"batch {smallest:g} saturates" if smallest else f"no batch saturates up to {most / 2:g}"
        found.append(f"{each.subject}: {what}")
    for scaling in result.scaling:
        most_chips = scaling.points[-1].chips
        what = f"falls after {scaling.falls_after}" if scaling.falls_after else f"does not fall up to {most_chips}"
        found.append(f"{scaling.subject}: {scaling.parallelism} scaling, {scaling.work}, {what} chips")
    return found


def print_tier1(reports: Sequence[Tier1]) -> None:
    """Print the profiles, their memory levels, and the advice."""
    columns = ("profile", "chip", "kind", "samples/s", "allocation", "of", "imbalance", "chip/slowest", "TFLOP/s",
               "efficiency", "binding")  # fmt: skip
    print_table("Tier 1", columns, [_tier1_cells(report) for report in reports], left=3)
    levels = [
        (report.profile.name, *cells)
        for report in reports
        if report.roofline is not None
        for cells in _level_cells(report.roofline)
    ]
    if levels:
        titles = (
            "profile",
            "level",
            "FLOP/B",
            "attainable [TFLOP/s]",
            "ridge [FLOP/B]",
            "bandwidth used",
            "capacity used",
        )
        print_table("Memory levels", titles, levels, left=2)
    _print_advice(reports)


def _tier1_cells(report: Tier1) -> tuple[str, ...]:
    profile, line = report.profile, report.roofline
    shares = [f"{name} {_share(each)}" for name, each in report.allocation.items()]
    totals = ["printed" if each.total is None else f"{each.total:,.0f}" for each in report.allocation.values()]
    return (
        profile.name,
        f"{profile.chips} × {profile.platform}",
        profile.kind,
        f"failed: {profile.failure}" if profile.failure else number(profile.rate),
        ", ".join(shares),
        ", ".join(totals),
        _three(report.load_imbalance),
        _three(report.chip_to_slowest_kernel),
        "" if line is None or line.achieved_flops_per_s is None else number(line.achieved_flops_per_s / 1e12),
        "" if line is None else _percent(line.efficiency),
        "" if line is None or profile.failure else line.binding or "",
    )


def _share(allocation: Allocation) -> str:
    varies = allocation.maximum > allocation.mean + 5e-5
    return _percent(allocation.mean) + (f" (max {_percent(allocation.maximum)})" if varies else "")


def _level_cells(line: Roofline) -> list[tuple[str, ...]]:
    return [
        (
            roof.name + (" (binds)" if roof.name == line.binding else ""),
            "" if roof.intensity is None else number(roof.intensity),
            "" if roof.attainable_flops_per_s is None else number(roof.attainable_flops_per_s / 1e12),
            number(roof.ridge),
            _percent(roof.bandwidth_used),
            _percent(roof.capacity_used),
        )
        for roof in line.levels
        if (roof.intensity, roof.bandwidth_used, roof.capacity_used) != (None, None, None)
    ]


def _print_advice(reports: Sequence[Tier1]) -> None:
    out = console()
    for report in reports:
        if report.relief is not None:
            out.print(f"{report.profile.name}: {_relief_text(report.relief)}")
        if report.layout is not None:
            out.print(f"{report.profile.name}: {_layout_text(report.layout)}")
    print_basis([report.profile for report in reports])
    for note in dict.fromkeys(f"{report.profile.name}: {note}" for report in reports for note in report.notes):
        out.print(f"note: {note}")


def print_basis(profiles: Sequence[Profile]) -> None:
    """Print what modelled rates rest on, each once."""
    for basis in dict.fromkeys(profile.basis for profile in profiles if profile.basis):
        console().print(f"parameters: {basis}")


def _relief_text(relief: Relief) -> str:
    bounded = finite(relief.gain_free) is not None
    free = f"{relief.gain_free:+.1%}, then {relief.next_binding}" if bounded else "without bound"
    return f"bound by {relief.binding} (reached {relief.reached:.1%}); doubled {relief.gain_doubled:+.1%}; freed {free}"


def _layout_text(layout: LayoutAdvice) -> str:
    cut = " ".join(map(str, layout.best))
    if layout.best_load >= layout.current_load:
        return f"layout {' '.join(map(str, layout.current))} has the least heaviest load, {number(layout.best_load)}"
    return (
        f"layout {cut} in place of {' '.join(map(str, layout.current))}: heaviest load {number(layout.best_load)} "
        f"in place of {number(layout.current_load)} {layout.unit}, rate {layout.gain:+.1%}"
    )


def print_tier2(result: Tier2) -> None:
    """Print scaling, batch saturation, precision gain and failures."""
    points = [
        (each.subject, each.parallelism, each.work, f"{point.chips}", number(point.rate), _percent(point.efficiency),
         _percent(point.communication_share), "" if point.step_change is None else f"{point.step_change:+.1%}")
        for each in result.scaling for point in each.points
    ]  # fmt: skip
    columns = ("run", "split", "work", "chips", "rate [1/s]", "efficiency", "communication", "step")
    print_table("Scaling", columns, points, left=3)
    batches = [
        (each.subject, " ".join(f"{batch:g}:{number(rate)}" for batch, rate in each.points),
         "none measured" if each.smallest_saturating_batch is None else f"{each.smallest_saturating_batch:g}",
         f"{each.elasticity:.2f}")
        for each in result.batch_saturation
    ]  # fmt: skip
    print_table("Batch", ("run", "batch: rate [1/s]", "saturates at", "elasticity"), batches, left=2)
    gains = [(each.subject, each.base, each.faster, f"{each.gain:+.1%}") for each in result.precision_gain]
    print_table("Precision", ("run", "base", "faster", "gain"), gains, left=3)
    out = console()
    for line in tier2_advice(result):
        out.print(line)
    for failure in result.failures:
        out.print(f"failed: {failure.name}: {failure.reason}")


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.2%}" if share < 10 else f"{share:.0%}"


def _three(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"
