"""Tables of a package for `estimate --explain`: area, cost and power by component, temperatures by phase."""

from __future__ import annotations

from hydra_dse.cli.tables import console, print_table
from hydra_dse.estimator.explain_package import PackageRow
from hydra_dse.results.text import number


def print_package(package: PackageRow) -> None:
    """Print what a package is made of, what it costs, and how hot it gets."""
    rows = [
        (
            row.part,
            str(row.count),
            *(number(value) for value in (row.area_mm2, row.cost_usd, row.dynamic_w, row.static_w)),
        )
        for row in package.parts
    ]
    totals = [
        sum(getattr(row, name) for row in package.parts) for name in ("area_mm2", "cost_usd", "dynamic_w", "static_w")
    ]
    rows.append(("all", "", *(number(total) for total in totals)))
    columns = ("component", "count", "silicon [mm²]", "parts [USD]", "dynamic [W]", "static [W]")
    print_table("Package by component", columns, rows)
    lost, interposer, unit = (
        "n/a" if value is None else number(value)
        for value in (package.lost_usd, package.interposer_usd, package.unit_usd)
    )
    console().print(
        f"unit cost {unit} USD: interposer {interposer}, substrate {number(package.substrate_usd)}, lost in assembly "
        f"{lost} (assembly yield {number(package.assembly_yield, 3)}), non-recurring {number(package.nre_usd)}"
    )
    if package.temperatures:
        heat = [
            (
                row.load,
                number(row.dynamic_w),
                *("n/a" if v is None else number(v) for v in (row.leakage_w, row.die_c, row.dram_c)),
            )
            for row in package.temperatures
        ]
        print_table(
            "Temperature", ("load", "dynamic [W]", "leakage [W]", "hottest die [°C]", "hottest DRAM [°C]"), heat
        )
