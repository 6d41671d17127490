"""Search-space files: a design template with parameters, as a `SearchSpace`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from hydra_dse.config.designs import mapping_faults
from hydra_dse.config.document import Document, KeyPath, dotted
from hydra_dse.config.finder import find
from hydra_dse.config.loader import load_yaml, validate
from hydra_dse.config.overrides import Override, apply_overrides, parsed
from hydra_dse.config.pieces import DEFAULT_PLACEMENT
from hydra_dse.config.points import Counts
from hydra_dse.design.nouns import Design
from hydra_dse.design.space import Parameter, Point, SearchSpace, Value
from hydra_dse.errors import Fault, InputError, did_you_mean

if TYPE_CHECKING:
    from hydra_dse.config.space_schema import SpaceSection
    from hydra_dse.config.template import Template

# Sections whose parameters leave traffic per request and slots as they are, so that the placement stays.
INNER_SECTIONS = (
    ("package", "link", "bandwidth"),
    ("policy",),
    ("package", "limits"),
    ("fabric", "bandwidth"),
    ("fabric", "latency"),
)


def load_space(ref: str | Path, overrides: Sequence[str | Override] = ()) -> SearchSpace:
    """Return the search space of a file or bundled name.

    Args:
        ref: path of a YAML file, or the name of a bundled space.
        overrides: `key=value` texts that change the file's values before they are checked.

    Raises:
        InputError: with every fault found, an empty space included.
    """
    path = find("spaces", ref)
    return space_of(apply_overrides(load_yaml(path), parsed(overrides)), path.stem)


def space_of(document: Document, name: str = "space") -> SearchSpace:
    """Return the search space that a document describes.

    Raises:
        InputError: with every fault found, an empty space included.
    """
    from hydra_dse.config.space_schema import SpaceSection
    from hydra_dse.config.template import Template

    section = validate(document, SpaceSection)
    name = section.name or name
    counts = _counts(section)
    faults = [*_reference_faults(document, section), *_count_faults(document, section)]
    if not faults:
        units = {key: part.unit for key, part in section.parameters.items() if part.unit}
        template = Template(document, name, units)
        faults = [*_value_faults(document, section, template), *mapping_faults(document)]
    if not faults and counts is not None and not counts.reachable():
        faults = [document.fault(("counts", "tiles"), counts.why_empty())]
    if faults:
        raise InputError(list(dict.fromkeys(faults)))
    builder = _Builder(template, tuple(section.parameters), counts)
    return SearchSpace(
        name=name,
        parameters=_parameters(document, section),
        complete=builder.complete,
        build=builder.build,
        derived=counts.derived if counts is not None else (),
        repair=builder.repair if counts is not None and section.repair == "nearest" else None,
        source=section.source,
    )


def resolved_space(document: Document) -> dict[str, object]:
    """Return the space as plain data with all defaults of its template written out; reads back to the same space.

    Raises:
        InputError: with every fault found.
    """
    space_of(document)
    return plain_space(document)


def plain_space(document: Document) -> dict[str, object]:
    """Return what `resolved_space` does, of a document that `space_of` has checked."""
    from hydra_dse.config.design_schema import DesignSection
    from hydra_dse.config.parameters import SECTIONS, references, substituted
    from hydra_dse.config.space_schema import SpaceSection

    section = validate(document, SpaceSection)
    units = {key: part.unit for key, part in section.parameters.items() if part.unit}
    first = substituted(document, _first(section), units)
    design = validate(_design_part(first), DesignSection).model_dump(by_alias=True, mode="json", exclude_none=True)
    if "slots" not in design["placement"]:
        design["placement"].setdefault("algorithm", DEFAULT_PLACEMENT)
    for path, parameter in references(document):
        here: object = design
        for part in path[:-1]:
            here = here[part]  # type: ignore[index]
        here[path[-1]] = f"${parameter}"  # type: ignore[index]
    head = section.model_dump(by_alias=True, mode="json", exclude_none=True, exclude=set(SECTIONS))
    return {**head, **{key: design[key] for key in SECTIONS if key in design}}


class _Builder:
    """`complete`, `build` and `repair` of a space, as picklable bound methods."""

    def __init__(self, template: Template, names: tuple[str, ...], counts: Counts | None) -> None:
        self._template, self._counts = template, counts
        self._order = (*names, *(counts.derived if counts is not None else ()))

    def complete(self, point: Point) -> Point | None:
        return point if self._counts is None else self._counts.complete(point)

    def build(self, point: Point) -> Design:
        return self._template.design(point, tuple([(name, point[name]) for name in self._order]))

    def repair(self, point: Point) -> Point:
        return point if self._counts is None else self._counts.repair(point)


def _parameters(document: Document, section: SpaceSection) -> tuple[Parameter, ...]:
    from hydra_dse.config.parameters import references

    fixed = {name for path, name in references(document) if path[0] != "policy"}
    return tuple(
        Parameter(name, part.values(), part.inner, runtime=name not in fixed)
        for name, part in section.parameters.items()
    )


def _counts(section: SpaceSection) -> Counts | None:
    part = section.counts
    if part is None:
        return None
    choices = {name: section.parameters[name].values() for name in part.parameters if name in section.parameters}
    return Counts(part.tiles, choices, part.rest, part.rest_minimum, part.rest_parity)


def _first(section: SpaceSection) -> dict[str, Value]:
    values: dict[str, Value] = {name: part.values()[0] for name, part in section.parameters.items()}
    if section.counts is not None and section.counts.rest is not None:
        values[section.counts.rest] = max(section.counts.rest_minimum, 1)
    return values


def _reference_faults(document: Document, section: SpaceSection) -> Iterator[Fault]:
    from hydra_dse.config.parameters import SECTIONS, references

    derived = [section.counts.rest] if section.counts is not None and section.counts.rest else []
    known = [*section.parameters, *derived]
    used: dict[str, list[KeyPath]] = {}
    for path, name in references(document):
        used.setdefault(name, []).append(path)
        if name not in known:
            message = f"no parameter called {name!r}{did_you_mean(name, known)}; known: {', '.join(known)}"
            yield document.fault(path, message)
    for name in known:
        if name not in used:
            at: KeyPath = ("parameters", name) if name in section.parameters else ("counts", "rest")
            changed = [f"--set {option}" for path, option in document.overrides.items() if path[0] in SECTIONS]
            hint = f" (did {' or '.join(changed)} take its place?)" if changed else ""
            message = f"parameter {name!r} is not used; write ${name} where it belongs{hint}"
            yield document.fault(at, message, at_key=True)
    for name, part in section.parameters.items():
        outer = [path for path in used.get(name, ()) if not any(_alone(path)[: len(p)] == p for p in INNER_SECTIONS)]
        if part.inner and outer:
            where = ".".join(str(step) for step in outer[0])
            message = f"{name!r} sets {where}, which can change the placement; only link bandwidth and policy are inner"
            yield document.fault(("parameters", name, "inner"), message)


def _alone(path: KeyPath) -> KeyPath:
    """A place in one of several packages as it would stand in a single one."""
    return ("package", *path[2:]) if path[0] == "packages" else path


def _count_faults(document: Document, section: SpaceSection) -> Iterator[Fault]:
    part = section.counts
    if part is None:
        return
    for index, name in enumerate(part.parameters):
        path: KeyPath = ("counts", "parameters", index)
        known = section.parameters
        if name not in known:
            yield document.fault(path, f"no parameter called {name!r}{did_you_mean(name, known)}")
        elif not all(type(value) is int for value in known[name].values()):
            yield document.fault(path, f"{name!r} must have whole numbers as choices to be a count")
    if part.rest is not None and part.rest in section.parameters:
        yield document.fault(("counts", "rest"), f"{part.rest!r} takes the rest, so it cannot be a parameter as well")


def _value_faults(document: Document, section: SpaceSection, template: Template) -> list[Fault]:
    """Faults of the template with each choice of each parameter in place, the others at their first."""
    from hydra_dse.config.design_schema import DesignSection
    from hydra_dse.config.parameters import references, substituted

    first = _first(section)
    homes = {dotted(path): name for path, name in references(document)}
    trials = [(first, "", 0)]
    for name, part in section.parameters.items():
        trials += [({**first, name: value}, name, index) for index, value in enumerate(part.values()) if index]
    found: list[Fault] = []
    for values, name, index in trials:
        try:
            validate(_design_part(substituted(document, values, template.units)), DesignSection)
            faults: Sequence[Fault] = template.faults(values)
        except InputError as error:
            faults = error.faults
        found += [_at_choice(document, fault, homes, {name: index}) for fault in faults]
    return found


def _at_choice(document: Document, fault: Fault, homes: Mapping[str, str], tried: Mapping[str, int]) -> Fault:
    """The fault at the choice that caused it, where its place in the template is a parameter.

    `tried`: parameter → number of its choice; the others are at their first.
    """
    name = homes.get(fault.path or "")
    if name is None or name not in document.part(("parameters",)).data:
        return fault
    return document.fault(("parameters", name, "choices", tried.get(name, 0)), f"{fault.path}: {fault.message}")


def _design_part(document: Document) -> Document:
    from hydra_dse.config.parameters import SECTIONS

    data: Mapping[str, object] = document.data
    return replace(document, data={key: data[key] for key in SECTIONS if data.get(key) is not None})
