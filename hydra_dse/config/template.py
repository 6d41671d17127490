"""A design file as a template: values written `$name` are parameters, all else is fixed.

A design file is a template without parameters; a search space is one with.  A space of 10^5 designs shares a few
hundred different pieces, so each piece (the package's links and tiles, a die group, a memory group, mapping, policy,
placement, precision) is read from the file once per combination of the parameters that it names, and then reused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, TypeVar

from hydra_dse.config import design_schema as schema
from hydra_dse.config.dies import Die
from hydra_dse.config.document import Document, KeyPath
from hydra_dse.config.fields import Section
from hydra_dse.config.hardware import chiplet_at, load_die, load_from, load_link, load_memory
from hydra_dse.config.loader import validate
from hydra_dse.config.pieces import limits_of, mapping_of, placement_of, policy_of, precision_of, topology_of
from hydra_dse.config.technology import load_technology
from hydra_dse.design.nouns import Design, MappingChoice, Placement
from hydra_dse.design.pipeline import pipelined
from hydra_dse.design.space import Value
from hydra_dse.errors import Fault, InputError
from hydra_dse.hardware.components import (
    Chiplet,
    DieGroup,
    Fabric,
    LinkClass,
    MemoryGroup,
    MemoryStack,
    Package,
    PackageLimits,
    Topology,
)
from hydra_dse.hardware.fabric import joined
from hydra_dse.hardware.formats import with_fast_format
from hydra_dse.hardware.frequency import at_frequency
from hydra_dse.hardware.technology import Technology
from hydra_dse.model.precision import Precision
from hydra_dse.policy import Policy

SECTIONS = ("package", "packages", "fabric", "dies", "memories", "mapping", "policy", "placement", "precision")
MARK = "$"
ALONE: str | None = None
"""The key of a package that is the only one of a design."""
CACHED = 65_536
Values = Mapping[str, Value]
Noun = TypeVar("Noun")
_S = TypeVar("_S", bound=Section)


def reference(value: object) -> str | None:
    """Return the parameter that a value of a template names, None where it is an ordinary value."""
    return value[len(MARK) :] if isinstance(value, str) and value.startswith(MARK) and len(value) > len(MARK) else None


def references(document: Document, prefix: KeyPath = ()) -> tuple[tuple[KeyPath, str], ...]:
    """Return key path and parameter of every `$name` of the template's sections at or below `prefix`."""
    data = document.get(prefix) if prefix else {key: document.get((key,)) for key in SECTIONS}
    found = ((path, reference(value)) for path, value in _scalars(data, prefix))
    return tuple((path, name) for path, name in found if name is not None)


def _scalars(data: object, path: KeyPath) -> Iterator[tuple[KeyPath, object]]:
    if isinstance(data, dict):
        for key, value in data.items():
            yield from _scalars(value, (*path, key))
    elif isinstance(data, list):
        for index, value in enumerate(data):
            yield from _scalars(value, (*path, index))
    else:
        yield path, data


def substituted(document: Document, values: Values, units: Mapping[str, str]) -> Document:
    """Return the template with every parameter replaced by its value, in its unit where it has one."""

    def filled(value: object) -> object:
        if isinstance(value, dict):
            return {key: filled(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [filled(inner) for inner in value]
        name = reference(value)
        return value if name is None else written(values[name], units.get(name))

    sections = {key: filled(document.data[key]) for key in SECTIONS if key in document.data}
    return replace(document, data={**document.data, **sections})


def written(value: Value, unit: str | None) -> Value:
    """Return a value as it stands in a file: `256` in `GB/s` is `"256 GB/s"`."""
    return f"{value} {unit}" if unit else value


class _Piece(Generic[Noun]):
    """One section of a template as nouns by the values of its parameters."""

    def __init__(self, document: Document, path: KeyPath, make: Callable[[Document, KeyPath], Noun]) -> None:
        self.names = tuple(dict.fromkeys(name for _, name in references(document, path)))
        self._path, self._make = path, make
        self._made: dict[tuple[Value, ...], Noun] = {}

    def of(self, template: Template, values: Values) -> Noun:
        key = tuple([values[name] for name in self.names])
        made = self._made.get(key)
        if made is None:
            made = self._made[key] = self._make(substituted(template.document, values, template.units), self._path)
        return made


@dataclass(frozen=True)
class _Frame:
    """A package without its dies and stacks."""

    topology: Callable[[int], Topology]
    link: LinkClass
    link_bandwidth_bytes_per_s: float
    memory_is_leaf: bool
    limits: PackageLimits
    technology: Technology | None


@dataclass(frozen=True)
class _Dies:
    """A die group before the link bandwidth is known."""

    die: Die
    count: int
    families: tuple[str, ...]
    phase: str
    frequency: float
    package: str | None


class Template:
    """Builds designs from a checked document; faults of values appear when a piece is first built."""

    def __init__(self, document: Document, name: str, units: Mapping[str, str] | None = None) -> None:
        self.document, self.name, self.units = document, name, dict(units or {})
        self.source = str(document.data.get("source") or "")
        several = _keys(document, "packages")
        self._frames: dict[str | None, _Piece[_Frame]] = {
            key: _Piece(document, ("packages", key), _frame) for key in several
        } or {ALONE: _Piece(document, ("package",), _frame)}
        self._fabric = _Piece(document, ("fabric",), _fabric)
        self._dies = {key: _Piece(document, ("dies", key), _dies) for key in _keys(document, "dies")}
        self._stacks = {key: _Piece(document, ("memories", key), _stacks) for key in _keys(document, "memories")}
        self._mapping = _Piece(document, ("mapping",), _mapping)
        self._policy = _Piece(document, ("policy",), _policy)
        self._placement = _Piece(document, ("placement",), _placement)
        self._precision = _Piece(document, ("precision",), _precision)
        package: tuple[_Piece[Any], ...] = (
            *self._frames.values(),
            self._fabric,
            *self._dies.values(),
            *self._stacks.values(),
        )
        self._pieces = (*package, self._mapping, self._policy, self._placement, self._precision)
        self._package_names = tuple(dict.fromkeys(name for piece in package for name in piece.names))
        self._packages: dict[tuple[Value, ...], Package] = {}
        self._groups: dict[tuple[str, int, float], DieGroup] = {}

    def __getstate__(self) -> dict[str, object]:
        return {"document": self.document, "name": self.name, "units": self.units}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__init__(state["document"], state["name"], state["units"])  # type: ignore[misc]

    def design(self, values: Values, parameters: tuple[tuple[str, object], ...] = (), name: str = "") -> Design:
        """Return the design of these parameter values.

        Raises:
            InputError: a value that its place in the file does not accept.
        """
        algorithm, placement = self._placement.of(self, values)
        design = Design(
            package=self.package(values),
            policy=self._policy.of(self, values),
            mapping=self._mapping.of(self, values),
            placement_algorithm=algorithm,
            placement=placement,
            precision=self._precision.of(self, values)[0],
            parameters=parameters,
            name=name,
        )
        try:
            return pipelined(design)
        except InputError as error:
            where = ("mapping", "pipeline")
            raise InputError([self.document.fault(where, fault.message) for fault in error.faults]) from None

    def faults(self, values: Values) -> list[Fault]:
        """Return every fault that building the design of these values meets."""
        found: list[Fault] = []
        for piece in self._pieces:
            try:
                piece.of(self, values)
            except InputError as error:
                found += error.faults
        if not found:
            try:
                self.package(values)
            except InputError as error:
                found += error.faults
        return found

    def package(self, values: Values) -> Package:
        """Return the package of these parameter values; equal values give the same object."""
        key = tuple([values[name] for name in self._package_names])
        package = self._packages.get(key)
        if package is None:
            if len(self._packages) >= CACHED:
                self._packages.clear()
            package = self._packages[key] = self._build_package(values)
        return package

    def _build_package(self, values: Values) -> Package:
        fabric = self._fabric.of(self, values)[0]
        if fabric is None:
            return self._one_package(ALONE, values)
        try:
            return joined(self.name, [self._one_package(name, values) for name in self._frames], fabric, self.source)
        except InputError as error:
            faults = [
                fault if fault.path else self.document.fault(("packages",), fault.message) for fault in error.faults
            ]
            raise InputError(faults) from None

    def _one_package(self, key: str | None, values: Values) -> Package:
        """The only package, or the one of a name."""
        frame = self._frames[key].of(self, values)
        dies = [
            self._group(name, piece, values, frame)
            for name, piece in self._dies.items()
            if piece.of(self, values).package == key
        ]
        stacks = [(name, *piece.of(self, values)) for name, piece in self._stacks.items()]
        stacks = [stack for stack in stacks if stack[-1] == key]
        return Package(
            name=key or self.name,
            topology=frame.topology(sum(group.count for group in dies) + sum(count for _, _, count, _ in stacks)),
            link=frame.link,
            link_bandwidth_bytes_per_s=frame.link_bandwidth_bytes_per_s,
            dies=tuple([group for group in dies if group.count]),
            memories=tuple([MemoryGroup(name, stack, count) for name, stack, count, _ in stacks if count]),
            memory_is_leaf=frame.memory_is_leaf,
            limits=frame.limits,
            source=self.source,
            technology=frame.technology,
        )

    def _group(self, name: str, piece: _Piece[_Dies], values: Values, frame: _Frame) -> DieGroup:
        dies, bandwidth = piece.of(self, values), frame.link_bandwidth_bytes_per_s
        key = (name, id(dies), bandwidth)
        group = self._groups.get(key)
        if group is None:
            try:
                chiplet = at_frequency(chiplet_at(dies.die, bandwidth), dies.frequency)
            except InputError as error:
                message = "; ".join(fault.message for fault in error.faults)
                raise InputError(self.document.fault(("dies", name, "chiplet"), message)) from None
            group = self._groups[key] = DieGroup(name, chiplet, dies.count, dies.families, dies.phase)
        return group


def _keys(document: Document, section: str) -> tuple[str, ...]:
    data = document.data.get(section)
    return tuple(data) if isinstance(data, dict) else ()


def _part(document: Document, path: KeyPath, model: type[_S]) -> _S:
    return validate(document.part(path), model) if document.get(path) is not None else validate(_EMPTY, model)


_EMPTY = Document("<defaults>", {})


def _frame(document: Document, path: KeyPath) -> _Frame:
    section = _part(document, path, schema.PackageSection)
    topology = partial(topology_of, document, section.topology, path)
    if section.topology.kind == "floorplan" or section.topology.columns != "fit":
        fixed = topology(0)
        topology = partial(_same, fixed)
    return _Frame(
        topology=topology,
        link=load_from(document, (*path, "link", "class"), load_link),
        link_bandwidth_bytes_per_s=section.link.bandwidth,
        memory_is_leaf=section.memory_tiles == "leaf",
        limits=limits_of(section.limits),
        technology=_technology(document, path, section),
    )


def _same(topology: Topology, _: int) -> Topology:
    return topology


def _technology(document: Document, path: KeyPath, section: schema.PackageSection) -> Technology | None:
    if section.technology is None:
        return None
    return load_from(document, (*path, "technology"), load_technology)


def _fabric(document: Document, path: KeyPath) -> tuple[Fabric | None]:
    if document.get(path) is None:
        return (None,)
    section = _part(document, path, schema.FabricSection)
    link = load_from(document, (*path, "class"), load_link)
    if section.latency is not None:
        link = replace(link, latency_s=section.latency)
    return (Fabric(link, section.bandwidth, section.links, section.topology == "switch"),)


def _dies(document: Document, path: KeyPath) -> _Dies:
    section = _part(document, path, schema.DieGroupSection)
    die = load_from(document, (*path, "chiplet"), load_die)
    if section.links is not None:
        if isinstance(die, Chiplet):
            message = f"{die.name} has a fixed size and {die.ports} links; only composed dies take `links`"
            raise InputError(document.fault((*path, "links"), message))
        die = replace(die, ports=section.links)
    if section.fast_format != "none":
        if isinstance(die, Chiplet):
            message = f"{die.name} has a fixed size and its own formats; only composed dies take `fast_format`"
            raise InputError(document.fault((*path, "fast_format"), message))
        die = with_fast_format(die, section.fast_format)
    return _Dies(die, section.count, tuple(section.families), section.phase, section.frequency, section.package)


def _stacks(document: Document, path: KeyPath) -> tuple[MemoryStack, int, str | None]:
    section = _part(document, path, schema.MemoryGroupSection)
    return load_from(document, (*path, "stack"), load_memory), section.count, section.package


def _mapping(document: Document, path: KeyPath) -> MappingChoice:
    return mapping_of(_part(document, path, schema.MappingSection))


def _policy(document: Document, path: KeyPath) -> Policy:
    return policy_of(_part(document, path, schema.PolicySection))


def _placement(document: Document, path: KeyPath) -> tuple[str, Placement | None]:
    return placement_of(_part(document, path, schema.PlacementSection))


def _precision(document: Document, path: KeyPath) -> tuple[Precision | None]:
    if document.get(path) is None:
        return (None,)
    return (precision_of(_part(document, path, schema.PrecisionSection)),)
