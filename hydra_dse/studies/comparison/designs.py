"""From what a search chose to placed designs: parameters and slots as plain data, which a journal keeps."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

from hydra_dse.bundle.whatif.scaling import RESOURCES, parse_scale, scaled
from hydra_dse.design.comparison import Comparison, Contender
from hydra_dse.design.nouns import Design, Placement
from hydra_dse.design.space import Point, SearchSpace
from hydra_dse.errors import Fault, InputError, did_you_mean, one_of
from hydra_dse.model.blocks import Model
from hydra_dse.physical.volume import at_volume
from hydra_dse.placement import place_design
from hydra_dse.results import Violation
from hydra_dse.search.estimating import PLACEMENT_SEED
from hydra_dse.studies.calibration_variants import with_slower_memory


@dataclass(frozen=True)
class Choice:
    """What a contender is in a case.

    Attributes:
        point: search parameters; empty for a given design.
        slots: of an explicit placement; None = by the algorithm of the design.
        space: number of the contender's space that the point is of.
    """

    contender: str
    point: Mapping[str, str | int | float | bool]
    slots: tuple[int, ...] | None = None
    space: int = 0

    @property
    def identity(self) -> str:
        """Twelve hex digits."""
        text = json.dumps([self.contender, dict(self.point), self.slots, *([self.space] if self.space else [])])
        return hashlib.sha256(text.encode()).hexdigest()[:12]


def choice_of(data: Mapping[str, object]) -> Choice:
    """Read a choice that a journal kept.

    Raises:
        InputError: it is not readable.
    """
    point, slots = data["point"], data["slots"]
    if not isinstance(point, dict) or not isinstance(slots, list | None):
        raise InputError(Fault("a stored design is not readable; the run directory is corrupt"))
    space = data.get("space", 0)
    if not isinstance(space, int):
        raise InputError(Fault("a stored design is not readable; the run directory is corrupt"))
    return Choice(str(data["contender"]), point, None if slots is None else tuple(slots), space)


def plain_choice(choice: Choice) -> dict[str, object]:
    """What `choice_of` reads."""
    slots = None if choice.slots is None else list(choice.slots)
    plain: dict[str, object] = {"contender": choice.contender, "point": dict(choice.point), "slots": slots}
    return {**plain, "space": choice.space} if choice.space else plain


def check_changes(comparison: Comparison) -> None:
    """Raise `InputError` where a change names a resource that its contenders do not have."""
    faults: list[Fault] = []
    for contender in comparison.contenders:
        change = contender.change
        for name in change.scale:
            if not name.startswith("compute:") and name not in RESOURCES:
                message = f"contender {contender.name!r} scales {name!r}{did_you_mean(name, RESOURCES)}"
                faults.append(Fault(f"{message}; expected {one_of(RESOURCES)}", path="compare"))
    if faults:
        raise InputError(faults)


def derived_choice(comparison: Comparison, contender: Contender, chosen: Mapping[str, Choice]) -> Choice:
    """The choice of a derived contender, from those of the case so far.

    Raises:
        InputError: the parameters taken do not make a point of the space.
    """
    parent = chosen[str(contender.of)]
    change = contender.change
    slots = None if change.placement is not None or change.parameters else parent.slots
    if change.take_from is None:
        return Choice(contender.name, parent.point, slots, parent.space)
    other = chosen[change.take_from].point
    missing = [name for name in change.parameters if name not in other or name not in parent.point]
    if missing:
        message = f"contender {contender.name!r} takes {missing[0]!r}, which is no parameter of both contenders"
        raise InputError(Fault(message, path="compare"))
    point = {**parent.point, **{name: other[name] for name in change.parameters}}
    return Choice(contender.name, point, slots, parent.space)


def design_of(comparison: Comparison, choice: Choice) -> Design:
    """Build the design of a choice, not placed unless its slots are given."""
    design = _unplaced(comparison, comparison.contender(choice.contender), choice)
    if comparison.memory_share != 1.0:
        design = with_slower_memory(design, comparison.memory_share)
    if comparison.volume is not None:
        design = replace(design, package=at_volume(design.package, comparison.volume))
    if choice.slots is not None:
        return replace(design, placement_algorithm="explicit", placement=Placement(choice.slots))
    return design


def _unplaced(comparison: Comparison, contender: Contender, choice: Choice) -> Design:
    if contender.design is not None:
        return contender.design
    if contender.spaces:
        space = contender.spaces[choice.space]
        return space.build(_complete(space, choice.point))
    change = contender.change
    design = _unplaced(comparison, comparison.contender(str(contender.of)), choice)
    if change.policy:
        design = replace(design, policy=replace(design.policy, **change.policy))  # type: ignore[arg-type]
    if change.placement is not None:
        design = replace(design, placement_algorithm=change.placement, placement=None)
    groups = [group.name for group in design.package.dies]
    return scaled(design, [parse_scale(f"{name}={factor!r}", groups) for name, factor in change.scale.items()])


def _complete(space: SearchSpace, point: Point) -> Point:
    """The point with its derived values made anew: taken counts change what the rest is."""
    done = space.complete({parameter.name: point[parameter.name] for parameter in space.parameters})
    if done is None:
        raise InputError(Fault(f"{dict(point)} is not in space {space.name!r}", path="compare"))
    return done


def placed(comparison: Comparison, choice: Choice, model: Model) -> tuple[Design, tuple[Violation, ...]]:
    """The placed design of a choice, or the reasons why it has no place."""
    design = design_of(comparison, choice)
    if design.placement is not None and design.placement_algorithm != "explicit":
        return design, ()
    return place_design(design, model, PLACEMENT_SEED)
