"""`hydra-dse whatif BUNDLE|DESIGN`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from hydra_dse.cli.options import json_option

if TYPE_CHECKING:
    from hydra_dse.bundle.whatif import Gain, WhatIf
    from hydra_dse.studies.whatif import Replayed


@click.command()
@click.argument("target", metavar="BUNDLE|DESIGN", type=click.Path())
@click.option(
    "--scale",
    "scales",
    multiple=True,
    metavar="RESOURCE=FACTOR",
    help="noi, hbm, sram, compute, compute:matmul, compute:vector or compute:<die group>; several times. "
    "[default: noi=2 hbm=2 compute:matmul=2 compute:vector=2]",
)
@click.option("--workload", metavar="WORKLOAD", help="What a design serves.  [default of RUN:ID: the run's]")
@click.option("--requests", type=click.IntRange(10, 10**7), help="Of each run of a design.  [default: 200]")
@click.option("--replications", type=click.IntRange(1, 100), default=3, show_default=True, help="Paired runs.")
@click.option("--by", default="tpot_mean_s", show_default=True, metavar="METRIC", help="Whose gain decides the order.")
@click.option("--no-pairs", is_flag=True, help="One resource at a time only.")
@json_option
def whatif(
    target: str,
    scales: tuple[str, ...],
    workload: str | None,
    requests: int | None,
    replications: int,
    by: str,
    no_pairs: bool,
    as_json: bool,
) -> None:
    """Simulate with resources scaled, one at a time and in pairs: which one to make faster first?

    Takes the folder of a bundle, a design of a run (RUN:ID), or with --workload any design (file or name). Everything
    else stays as it was, and what overlapped may overlap.  A foreign trace is replayed by its dependencies.
    """
    from hydra_dse.studies.whatif import Replayed, what_if_of

    found = what_if_of(
        target, scales, workload=workload, requests=requests, replications=replications, by=by, pairs=not no_pairs
    )
    if isinstance(found, Replayed):
        (_print_replayed_json if as_json else _print_replayed)(found)
    elif as_json:
        _print_json(found)
    else:
        _print_tables(found, by)


def _print_json(found: WhatIf) -> None:
    from hydra_dse.cli.options import finite, print_json

    def gain(each: Gain) -> dict[str, object]:
        return {"mean": finite(each.mean), "ci95": [finite(each.low), finite(each.high)]}

    print_json(
        {
            "baseline": {name: finite(value) for name, value in found.baseline.items()},
            "sensitivities": [
                {
                    "scale": {scale.resource: scale.factor for scale in each.scales},
                    "gains": {name: gain(value) for name, value in each.gains.items()},
                    "metrics": {name: finite(value) for name, value in each.metrics.items()},
                }
                for each in found.sensitivities
            ],
            "replayed": found.replayed,
        }
    )


def _print_tables(found: WhatIf, by: str) -> None:
    from hydra_dse.bundle.whatif import GAINS
    from hydra_dse.cli.tables import console, print_table

    names = (by, *(name for name in GAINS if name != by))
    rows = [(each.label, *(_cell(each.gains.get(name)) for name in names)) for each in found.sensitivities]
    print_table("Gain (times better, 95 % interval of paired runs)", ("scaled", *names), rows, 1)
    out = console()
    if found.replayed:
        out.print("the unscaled run gives what the bundle recorded, to the last digit")
    single = next((each for each in found.sensitivities if len(each.scales) == 1), None)
    if single is not None:
        out.print(f"first: {single.label}")


def _cell(gain: Gain | None) -> str:
    if gain is None:
        return "n/a"
    interval = "" if gain.low != gain.low else f" ({gain.low:.3f}–{gain.high:.3f})"
    return f"{gain.mean:.3f}{interval}"


def _print_replayed_json(found: Replayed) -> None:
    from hydra_dse.cli.options import print_json

    rows = [{"scale": {name: found.factors[name] for name in names}, "gain": gain} for names, gain in found.gains]
    baseline = {"duration_s": found.baseline_s}
    print_json({"baseline": baseline, "sensitivities": rows, "replayed": True, "limits": list(found.limits)})


def _print_replayed(found: Replayed) -> None:
    from hydra_dse.cli.tables import console, print_table

    cells = [
        (" and ".join(f"{name} × {found.factors[name]:g}" for name in names), f"{gain:.3f}")
        for names, gain in found.gains
    ]
    print_table("Gain of the recorded time", ("scaled", "times shorter"), cells, 1)
    console().print(f"the unscaled replay takes the recorded time, {found.baseline_s:.6g} s")
    for limit in found.limits:
        console().print(f"limit: {limit}")
