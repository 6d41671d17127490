"""`diff`: what changed between two runs, and why their fronts differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import yaml

from hydra_dse.design.experiment import Experiment
from hydra_dse.errors import Fault, InputError
from hydra_dse.search.archive import Archive
from hydra_dse.search.objectives import Objectives
from hydra_dse.search.pareto import FloatArray, dominates
from hydra_dse.studies.differences import differences
from hydra_dse.studies.provenance import Provenance
from hydra_dse.studies.run_directory import RunDirectory, existing_run
from hydra_dse.studies.runs import designs_of, experiment_of

KEPT, GAINED, LOST = "kept", "gained", "lost"


@dataclass(frozen=True)
class FrontChange:
    """One design that is on a front of either run.

    Attributes:
        change: `kept`, `gained` (on the second front only) or `lost`.
        reason: why, in words.
        before, after: objective → value in either run; empty where the design was not scored.
    """

    design: str
    change: str
    reason: str
    before: Mapping[str, float]
    after: Mapping[str, float]


@dataclass(frozen=True)
class RunDifference:
    """What differs between two runs.

    Attributes:
        experiment: (key, value before, value after) of the resolved experiments.
        versions: (package, before, after).
        inputs: paths whose content differs, or that only one run read.
        designs: designs scored in both, only before, only after.
        front: every design of either front: lost, gained, kept.
    """

    objectives: tuple[str, ...]
    experiment: tuple[tuple[str, str, str], ...]
    versions: tuple[tuple[str, str, str], ...]
    inputs: tuple[str, ...]
    designs: tuple[int, int, int]
    front: tuple[FrontChange, ...]

    def count(self, change: str) -> int:
        """Number of designs of the fronts with that change."""
        return sum(item.change == change for item in self.front)


@dataclass(frozen=True)
class _Scored:
    """Losses of the feasible designs of a run by id, its front, and what infeasible ones break."""

    losses: Mapping[str, FloatArray]
    front: tuple[str, ...]
    broken: Mapping[str, str]

    def values(self, objectives: Objectives, design: str) -> dict[str, float]:
        if design not in self.losses:
            return {}
        signs = np.where(objectives.maximised, -1.0, 1.0)
        values = self.losses[design] * signs
        return dict(zip(objectives.names, (float(value) for value in values), strict=True))


def compare_runs(before: str | Path, after: str | Path) -> RunDifference:
    """Compare two run directories by the objectives they share.

    Raises:
        InputError: not run directories, without designs, or without a common objective.
    """
    runs = existing_run(before), existing_run(after)
    experiments = experiment_of(runs[0]), experiment_of(runs[1])
    objectives = _common_objectives(experiments, str(runs[1].path))
    old, new = (_scored(run, objectives) for run in runs)
    names = [{*side.losses, *side.broken} for side in (old, new)]
    provenances = runs[0].provenance(), runs[1].provenance()
    return RunDifference(
        objectives=objectives.names,
        experiment=tuple(differences(_resolved(runs[0]), _resolved(runs[1]))),
        versions=_versions(*provenances),
        inputs=_inputs(*provenances),
        designs=(len(names[0] & names[1]), len(names[0] - names[1]), len(names[1] - names[0])),
        front=tuple(_changes(old, new, objectives)),
    )


def _resolved(run: RunDirectory) -> object:
    try:
        return yaml.safe_load(run.experiment_file.read_bytes())
    except (OSError, yaml.YAMLError) as error:
        raise InputError(Fault(f"not readable ({error})", file=str(run.experiment_file))) from error


def _common_objectives(experiments: tuple[Experiment, Experiment], file: str) -> Objectives:
    old, new = (experiment.objectives for experiment in experiments)
    common = [name for name in old if name in new]
    if not common:
        message = f"the runs share no objective: {', '.join(old)} against {', '.join(new)}"
        raise InputError(Fault(message, file=file))
    return Objectives.named(common)


def _scored(run: RunDirectory, objectives: Objectives) -> _Scored:
    scores = designs_of(run).scores
    losses = objectives.losses({name: np.asarray(scores.metrics[name]) for name in objectives.names})
    archive = Archive(objectives)
    archive.add(scores.identities, losses, scores.violation)
    rows = list(zip(scores.identities, losses, scores.violations, strict=True))
    broken = {name: "; ".join(str(one) for one in violations) for name, _, violations in rows if violations}
    return _Scored({name: loss for name, loss, violations in rows if not violations}, archive.identities, broken)


def _changes(old: _Scored, new: _Scored, objectives: Objectives) -> Iterator[FrontChange]:
    """Lost designs first, then gained ones, then those on both fronts."""
    sides = set(old.front), set(new.front)
    for design in (name for name in old.front if name not in sides[1]):
        yield _change(design, LOST, _why_absent(design, new, old, "the second run"), old, new, objectives)
    for design in (name for name in new.front if name not in sides[0]):
        yield _change(design, GAINED, _why_absent(design, old, new, "the first run"), old, new, objectives)
    for design in (name for name in old.front if name in sides[1]):
        same = np.array_equal(old.losses[design], new.losses[design])
        yield _change(design, KEPT, "same scores" if same else "other scores", old, new, objectives)


def _change(design: str, change: str, reason: str, old: _Scored, new: _Scored, objectives: Objectives) -> FrontChange:
    return FrontChange(design, change, reason, old.values(objectives, design), new.values(objectives, design))


def _why_absent(design: str, there: _Scored, other: _Scored, run: str) -> str:
    """Why a design of one front is not on the front `there`."""
    if design in there.broken:
        return f"infeasible in {run}: {there.broken[design]}"
    losses = there.losses.get(design, other.losses[design])
    ruler = next((name for name in there.front if dominates(there.losses[name], losses)), None)
    if design not in there.losses:
        return f"not scored in {run}" + (f", where {ruler} dominates it" if ruler else "")
    if ruler is None:  # of designs with equal scores the smallest id stays
        return f"as good as another design of {run}"
    by = f"dominated by {ruler} in {run}"
    if ruler not in other.losses and ruler not in other.broken:
        return f"{by}, which only that run scored"
    return by if np.array_equal(losses, other.losses[design]) else f"{by}; its own scores changed too"


def _versions(old: Provenance, new: Provenance) -> tuple[tuple[str, str, str], ...]:
    names = dict.fromkeys([*old.versions, *new.versions])
    pairs = [(name, old.versions.get(name, "none"), new.versions.get(name, "none")) for name in names]
    return tuple((name, was, now) for name, was, now in pairs if was != now)


def _inputs(old: Provenance, new: Provenance) -> tuple[str, ...]:
    paths = dict.fromkeys([*old.inputs, *new.inputs])
    return tuple(path for path in paths if old.inputs.get(path) != new.inputs.get(path))
