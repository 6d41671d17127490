"""What-if: a design or a bundle again with resources scaled.

Designs and bundles of ours are simulated; a foreign bundle is replayed by the graph of its trace.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra_dse.errors import Fault, InputError, did_you_mean, one_of

if TYPE_CHECKING:
    from hydra_dse.bundle.whatif import WhatIf
    from hydra_dse.bundle.whatif.replay import Node
    from hydra_dse.studies.design_simulation import DesignSimulation

BY = "tpot_mean_s"
"""The metric whose gain decides the order, unless another is named."""
SCALES = ("noi=2", "hbm=2", "compute:matmul=2", "compute:vector=2")
FOREIGN_SCALES = ("noi=2", "hbm=2", "compute=2")
REQUESTS = 200
"""Of the simulation of a design that is no bundle, unless another number is given."""
FOREIGN = ("noi", "hbm", "compute")
"""Resources that the events of a foreign trace can be told apart by."""


@dataclass(frozen=True)
class Replayed:
    """What scaling gives in the recorded graph of a foreign trace.

    Attributes:
        baseline_s: recorded time.
        factors: by resource.
        gains: sets of resources and how many times shorter the recorded time gets, the best first.
        limits: what the trace does not say.
    """

    baseline_s: float
    factors: dict[str, float]
    gains: tuple[tuple[tuple[str, ...], float], ...]
    limits: tuple[str, ...]


def what_if_of(
    ref: str | Path,
    scales: Sequence[str] = (),
    *,
    workload: str | None = None,
    requests: int | None = None,
    replications: int = 3,
    by: str = BY,
    pairs: bool = True,
) -> WhatIf | Replayed:
    """Run a design or a bundle again with resources scaled, one at a time and in pairs.

    Args:
        ref: the folder of a bundle, a design of a run (`RUN:ID`), or with a workload any design by file or name.
        scales: texts as `noi=2`; by default `SCALES`, of a foreign bundle `FOREIGN_SCALES`.
        workload: what a design that is no bundle serves; None = that of its run.
        requests: of each run of such a design, by default `REQUESTS`; a bundle has its own.
        replications: paired runs; a foreign bundle has none.
        by: the metric whose gain decides the order.
        pairs: also two at a time.

    Raises:
        InputError: no bundle or design, an unknown resource or metric, an infeasible design, or a bundle of ours whose
            run does not give again what it recorded.
    """
    from hydra_dse.bundle.whatif import GAINS

    if by not in GAINS:
        raise InputError(Fault(f"no gain of {by!r}{did_you_mean(by, GAINS)}; there are {one_of(GAINS)}", file="--by"))
    if not Path(ref).is_dir():
        return _simulated(_design(str(ref), workload, requests), scales or SCALES, replications, by, pairs)
    if workload is not None or requests is not None:
        option = "--workload" if workload is not None else "--requests"
        raise InputError(Fault(f"{ref} is a bundle, which says itself what was simulated", file=option))
    block = _block(Path(ref))
    if block is None:
        return _replayed(str(ref), scales or FOREIGN_SCALES, pairs)
    from hydra_dse.studies.bundles import simulation_of

    run = simulation_of(block, str(ref))
    replayed = _replays(str(ref), run)
    return replace(_simulated(run, scales or SCALES, replications, by, pairs), replayed=replayed)


def _design(ref: str, workload: str | None, requests: int | None) -> DesignSimulation:
    from hydra_dse.studies.design_simulation import DesignSimulation
    from hydra_dse.studies.run_references import calibration_for, run_and_identity

    if workload is None and run_and_identity(ref) is None:
        raise InputError(Fault("is no folder of a bundle; a design needs --workload", file=ref))
    calibration = calibration_for(ref, None)
    return DesignSimulation(ref, workload, calibration=calibration, requests=requests or REQUESTS)


def _block(folder: Path) -> dict[str, Any] | None:
    """Our block of the card; None for a foreign bundle."""
    from hydra_dse.bundle.conventions import BLOCK
    from hydra_dse.config.loader import load_yaml

    card = folder / f"{folder.resolve().name}.yaml"
    if not card.is_file():
        return None
    block = load_yaml(card).data.get(BLOCK)
    return block if isinstance(block, dict) and "run" in block else None


def _simulated(run: DesignSimulation, scales: Sequence[str], replications: int, by: str, pairs: bool) -> WhatIf:
    from hydra_dse.bundle.whatif import parse_scale, what_if

    placed, violations = run.placed
    if violations:
        raise InputError(Fault(f"{run.design} is infeasible: {violations[0]}"))
    groups = [group.name for group in placed.package.dies if group.count]
    chosen = [parse_scale(text, groups) for text in scales]
    runs = [
        replace(run, replications=1, seed=run.seed + number, window_share=number / replications)
        for number in range(replications)
    ]
    return what_if(placed, chosen, lambda design: [each.evaluate(design=design) for each in runs], by, pairs)


def _replays(bundle: str, run: DesignSimulation) -> bool | None:
    """Whether the run gives the metrics that the bundle recorded; None where it recorded none.

    Raises:
        InputError: it does not; nothing that is told of a changed run would hold for the bundle.
    """
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


def _replayed(bundle: str, scales: Sequence[str], pairs: bool) -> Replayed:
    """Replay the recorded graph of a trace that we did not write."""
    from hydra_dse.bundle.whatif import LIMITS, replay

    factors = dict(_factor(text) for text in scales)
    if len(factors) < len(scales):
        raise InputError(Fault("give each resource once", file="--scale"))
    nodes, notes = _graph(bundle)
    before = _unscaled(nodes, bundle)
    sets = [(name,) for name in factors] + (list(itertools.combinations(factors, 2)) if pairs else [])
    gains = {names: before / replay(nodes, {name: factors[name] for name in names}) for names in sets}
    order = sorted(gains, key=lambda names: -gains[names])
    return Replayed(before / 1e6, factors, tuple((names, gains[names]) for names in order), (*LIMITS, *notes))


def _graph(bundle: str) -> tuple[list[Node], list[str]]:
    """The graph of all ranks, and what was left out of it."""
    from hydra_dse.bundle.conventions import KERNEL, MEMCPY
    from hydra_dse.bundle.reading import open_folder, timed_events
    from hydra_dse.bundle.whatif import graph_of

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

    before, whole = replay(nodes, {}), recorded(nodes)
    if before <= 0.0:
        raise InputError(Fault("nothing in the trace takes any time", file=bundle))
    if abs(before - whole) > 1e-6 * whole:
        message = f"the unscaled replay takes {before:.9g} µs instead of the recorded {whole:.9g} µs"
        raise InputError(Fault(message, file=bundle))
    return before


def _factor(text: str) -> tuple[str, float]:
    from hydra_dse.bundle.whatif import parse_scale

    scale = parse_scale(text, ())
    if scale.resource not in FOREIGN:
        message = f"{scale.resource!r} cannot be told from a foreign trace; accepted: {', '.join(FOREIGN)}"
        raise InputError(Fault(message, file="--scale"))
    return scale.resource, scale.factor
