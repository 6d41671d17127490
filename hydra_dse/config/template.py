"""A design file as a template: values written `$name` are parameters, all else is fixed.

A design file is a template without parameters; a search space is one with.  A space of 10^5 designs shares a few
hundred different pieces, so each piece (the package's links and tiles, a die group, a memory group, mapping, policy,
placement, precision) is read from the file once per combination of the parameters that it names, and then reused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from hydra_dse.config import template_parts as parts
from hydra_dse.config.document import Document, KeyPath
from hydra_dse.config.hardware import chiplet_at
from hydra_dse.config.parameters import Values, references, substituted
from hydra_dse.design.nouns import Design
from hydra_dse.design.pipeline import pipelined
from hydra_dse.design.space import Value
from hydra_dse.errors import Fault, InputError
from hydra_dse.hardware.components import DieGroup, MemoryGroup, Package
from hydra_dse.hardware.fabric import joined
from hydra_dse.hardware.frequency import at_frequency

ALONE: str | None = None
"""The key of a package that is the only one of a design."""
CACHED = 65_536
Noun = TypeVar("Noun")


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


class Template:
    """Builds designs from a checked document; faults of values appear when a piece is first built."""

    def __init__(self, document: Document, name: str, units: Mapping[str, str] | None = None) -> None:
        self.document, self.name, self.units = document, name, dict(units or {})
        self.source = str(document.data.get("source") or "")
        several = _keys(document, "packages")
        self._frames: dict[str | None, _Piece[parts.Frame]] = {
            key: _Piece(document, ("packages", key), parts.read_frame) for key in several
        } or {ALONE: _Piece(document, ("package",), parts.read_frame)}
        self._fabric = _Piece(document, ("fabric",), parts.read_fabric)
        self._dies = {key: _Piece(document, ("dies", key), parts.read_dies) for key in _keys(document, "dies")}
        self._stacks = {
            key: _Piece(document, ("memories", key), parts.read_stacks) for key in _keys(document, "memories")
        }
        self._mapping = _Piece(document, ("mapping",), parts.read_mapping)
        self._policy = _Piece(document, ("policy",), parts.read_policy)
        self._placement = _Piece(document, ("placement",), parts.read_placement)
        self._precision = _Piece(document, ("precision",), parts.read_precision)
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

    def _group(self, name: str, piece: _Piece[parts.Dies], values: Values, frame: parts.Frame) -> DieGroup:
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
