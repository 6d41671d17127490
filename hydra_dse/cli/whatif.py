"""`hydra-dse whatif BUNDLE`."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hydra_dse.cli.options import json_option

if TYPE_CHECKING:
    from hydra_dse.bundle.whatif import Gain, WhatIf
    from hydra_dse.bundle.whatif.replay import Node
    from hydra_dse.cli.simulation import Simulation


@click.command()
@click.argument("bundle", type=click.Path())
@click.option(
    "--scale",
    "scales",
    multiple=True,
    metavar="RESOURCE=FACTOR",
    help="noi, hbm, sram, compute, compute:matmul, compute:vector or compute:<die group>; several times. "
    "[default: noi=2 hbm=2 compute:matmul=2 compute:vector=2]",
)
@click.option("--replications", type=click.IntRange(1, 100), default=3, show_default=True, help="Paired runs.")
@click.option("--by", default="tpot_mean_s", show_default=True, metavar="METRIC", help="Whose gain decides the order.")
@click.option("--no-pairs", is_flag=True, help="One resource at a time only.")
@json_option
def whatif(bundle: str, scales: tuple[str, ...], replications: int, by: str, no_pairs: bool, as_json: bool) -> None:
    """Simulate BUNDLE again with resources scaled, one at a time and in pairs: which one to make faster first?

    Everything else stays as it was, and what overlapped may overlap.  A foreign trace is replayed by its dependencies.
    """
    from hydra_dse.bundle.whatif import GAINS
    from hydra_dse.errors import Fault, InputError, did_you_mean, one_of

    if by not in GAINS:
        raise InputError(Fault(f"no gain of {by!r}{did_you_mean(by, GAINS)}; there are {one_of(GAINS)}", file="--by"))
    block = _block(bundle)
    if block is None:
        _foreign(bundle, scales or ("noi=2", "hbm=2", "compute=2"), not no_pairs, as_json)
        return
    found = _simulated(bundle, block, scales or _DEFAULT, replications, by, not no_pairs)
    if as_json:
        _print_json(found)
    else:
        _print_tables(found, by)


_DEFAULT = ("noi=2", "hbm=2", "compute:matmul=2", "compute:vector=2")


def _block(bundle: str) -> dict[str, Any] | None:
    """Our block of the card; None for a foreign bundle."""
    from hydra_dse.bundle.conventions import BLOCK
    from hydra_dse.config.loader import load_yaml
    from hydra_dse.errors import Fault, InputError

    folder = Path(bundle)
    if not folder.is_dir():
        raise InputError(Fault("is no folder of a bundle", file=bundle))
    card = folder / f"{folder.resolve().name}.yaml"
    if not card.is_file():
        return None
    block = load_yaml(card).data.get(BLOCK)
    return block if isinstance(block, dict) and "run" in block else None


def _simulated(
    bundle: str, block: dict[str, Any], scales: tuple[str, ...], replications: int, by: str, pairs: bool
) -> WhatIf:
    from dataclasses import replace

    from hydra_dse.bundle.whatif import parse_scale, what_if
    from hydra_dse.cli.bundles import simulation_of

    run = simulation_of(block, bundle)
    placed = run.placed[0]
    groups = [group.name for group in placed.package.dies if group.count]
    chosen = [parse_scale(text, groups) for text in scales]
    replayed = _replays(bundle, run)
    runs = [replace(run, replications=1, seed=run.seed + number) for number in range(replications)]
    found = what_if(placed, chosen, lambda design: [each.evaluate(design=design) for each in runs], by, pairs)
    return replace(found, replayed=replayed)


def _replays(bundle: str, run: Simulation) -> bool | None:
    """Whether the run gives the metrics that the bundle recorded; None where it recorded none.

    Raises:
        InputError: it does not; nothing that is told of a changed run would hold for the bundle.
    """
    from hydra_dse.errors import Fault, InputError

    file = Path(bundle) / "metrics.json"
    if not file.is_file():
        return None
    recorded = json.loads(file.read_text(encoding="utf-8")).get("metrics", {})
    again = run.evaluate().metrics
    different = [name for name, value in recorded.items() if again.get(name) != value]
    if different:
        message = f"simulated again it gives another {different[0]}: {again.get(different[0])}"
        raise InputError(Fault(f"{message} instead of {recorded[different[0]]}", file=str(file)))
    return True


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


def _foreign(bundle: str, scales: tuple[str, ...], pairs: bool, as_json: bool) -> None:
    """Replay the recorded graph of a trace that we did not write."""
    from hydra_dse.bundle.whatif import LIMITS, replay
    from hydra_dse.cli.options import print_json
    from hydra_dse.cli.tables import console, print_table
    from hydra_dse.errors import Fault, InputError

    factors = dict(_factor(text) for text in scales)
    if len(factors) < len(scales):
        raise InputError(Fault("give each resource once", file="--scale"))
    nodes, notes = _graph(bundle)
    before = _unscaled(nodes, bundle)
    sets = [(name,) for name in factors] + (list(itertools.combinations(factors, 2)) if pairs else [])
    gains = {names: before / replay(nodes, {name: factors[name] for name in names}) for names in sets}
    order = sorted(gains, key=lambda names: -gains[names])
    limits = [*LIMITS, *notes]
    if as_json:
        rows = [{"scale": {name: factors[name] for name in names}, "gain": gains[names]} for names in order]
        print_json(
            {"baseline": {"duration_s": before / 1e6}, "sensitivities": rows, "replayed": True, "limits": limits}
        )
        return
    cells = [(" and ".join(f"{name} × {factors[name]:g}" for name in names), f"{gains[names]:.3f}") for names in order]
    print_table("Gain of the recorded time", ("scaled", "times shorter"), cells, 1)
    console().print(f"the unscaled replay takes the recorded time, {before / 1e6:.6g} s")
    for limit in limits:
        console().print(f"limit: {limit}")


def _graph(bundle: str) -> tuple[list[Node], list[str]]:
    """The graph of all ranks, and what was left out of it."""
    from hydra_dse.bundle.conventions import KERNEL, MEMCPY
    from hydra_dse.bundle.reading import open_folder, timed_events
    from hydra_dse.bundle.whatif import graph_of
    from hydra_dse.errors import Fault, InputError

    files = open_folder(bundle).ranks
    if not files:
        raise InputError(Fault("has no file rank<N>_trace.json or kineto_trace_<N>.json", file=bundle))
    ranks = [timed_events(file, (KERNEL, MEMCPY)) for file in files]
    skipped = sum(each.skipped for each in ranks)
    notes = [f"{skipped} events left out: no name, or no time or duration that is a number"] if skipped else []
    return graph_of([each.events for each in ranks]), notes


def _unscaled(nodes: list[Node], bundle: str) -> float:
    """Duration in µs of the replay with nothing scaled.

    Raises:
        InputError: nothing takes time, or it is not the recorded one, so that no other replay could be believed.
    """
    from hydra_dse.bundle.whatif import recorded, replay
    from hydra_dse.errors import Fault, InputError

    before, whole = replay(nodes, {}), recorded(nodes)
    if before <= 0.0:
        raise InputError(Fault("nothing in the trace takes any time", file=bundle))
    if abs(before - whole) > 1e-6 * whole:
        message = f"the unscaled replay takes {before:.9g} µs instead of the recorded {whole:.9g} µs"
        raise InputError(Fault(message, file=bundle))
    return before


def _factor(text: str) -> tuple[str, float]:
    from hydra_dse.bundle.whatif import parse_scale
    from hydra_dse.errors import Fault, InputError

    scale = parse_scale(text, ())
    if scale.resource not in ("noi", "hbm", "compute"):
        message = f"{scale.resource!r} cannot be told from a foreign trace; accepted: noi, hbm, compute"
        raise InputError(Fault(message, file="--scale"))
    return scale.resource, scale.factor
