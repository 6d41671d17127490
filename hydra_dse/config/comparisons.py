"""Comparison files: loads, contenders and their searches as nouns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from hydra_dse.config.compared_loads import StudyFile, check_command
from hydra_dse.config.designs import load_design
from hydra_dse.config.document import Document, KeyPath
from hydra_dse.config.experiments import digest_of
from hydra_dse.config.finder import find, find_from
from hydra_dse.config.loader import load_yaml, validate
from hydra_dse.config.objectives import bound_message
from hydra_dse.config.overrides import Override, apply_overrides, parsed, quick_overrides
from hydra_dse.config.plain import to_plain
from hydra_dse.config.spaces import load_space
from hydra_dse.design.comparison import (
    AIMS,
    Change,
    ComparedSearch,
    ComparedSimulation,
    Comparison,
    Contender,
)
from hydra_dse.design.experiment import Bound, InputFile, SearchSettings
from hydra_dse.design.nouns import Design
from hydra_dse.errors import Fault, InputError, did_you_mean, one_of
from hydra_dse.results import METRICS, metric
from hydra_dse.results.aggregates import aggregate_of
from hydra_dse.results.metrics import NEITHER
from hydra_dse.workload.nouns import Workload

if TYPE_CHECKING:
    from hydra_dse.config import comparison_schema as schema

DesignOf = Callable[[str], Design]
"""How a design is found by `RUN:ID`: the run directories belong to a floor above."""


def load_comparison(
    ref: str | Path,
    overrides: Sequence[str | Override] = (),
    *,
    quick: bool = False,
    design_of_run: DesignOf | None = None,
) -> Comparison:
    """Return the comparison of a file or bundled name.

    Args:
        ref: path of a YAML file, or a bundled name.
        overrides: `key=value` texts.
        quick: with the values of the file's section `quick` in place, before the overrides.
        design_of_run: finds a contender's design by `RUN:ID`.

    Raises:
        InputError: with every fault found, those of the files it names included.
    """
    path = find("experiments", ref)
    document = load_yaml(path)
    check_command(document, path, "compare")
    if quick:
        document = apply_overrides(document, quick_overrides(document))
    return _Builder(apply_overrides(document, parsed(overrides)), path, design_of_run).build()


def load_stored_comparison(file: Path, inputs: Sequence[str], design_of_run: DesignOf | None = None) -> Comparison:
    """Return the comparison that a run directory keeps.

    Args:
        file: the stored, resolved comparison.
        inputs: absolute paths of what it was read from, its own file first: relative paths in it are relative to that.
        design_of_run: finds a contender's design by `RUN:ID`.

    Raises:
        InputError: with every fault found.
    """
    folder = Path(inputs[0]).parent if inputs else file.parent
    document = replace(load_yaml(file), folder=folder, trusted=frozenset(inputs))
    return _Builder(document, file, design_of_run).build()


class _Builder:
    """Reads what a comparison names, collecting faults."""

    def __init__(self, document: Document, path: Path, design_of_run: DesignOf | None) -> None:
        from hydra_dse.config.comparison_schema import ComparisonSection

        self._document, self._path, self._design_of_run = document, path, design_of_run
        self._section: schema.ComparisonSection = validate(document, ComparisonSection)
        self._file = StudyFile(document, [path])
        self._faults, self._inputs = self._file.faults, self._file.inputs

    def build(self) -> Comparison:
        section = self._section
        loads = tuple(self._file.loads(section.models, section.workloads))
        self._faults.extend(self._name_faults())
        self._faults.extend(self._aim_faults())
        self._faults.extend(self._bound_faults([load.requests for load in loads]))
        contenders = tuple(self._contenders())
        self._faults.extend(self._take_faults(contenders))
        calibration = self._file.calibration()
        if self._faults or calibration is None:
            raise InputError(list(dict.fromkeys(self._faults)))
        searched = section.search.model_dump()
        own = {key: searched.pop(key) for key in ("load", "pilot", "finalists", "selection_requests")}
        simulated = section.simulation.model_dump()
        del simulated["power_limit"]  # written as text; the section has the number
        return Comparison(
            name=section.name or self._path.stem,
            loads=loads,
            aims=section.objectives,
            contenders=contenders,
            reference=section.reference or section.compare[0].name,
            fractions=section.fractions,
            primary=section.primary,
            search=ComparedSearch(SearchSettings(**searched), **own),
            simulation=ComparedSimulation(**simulated, power_limit_w=section.simulation.power_limit),
            calibration=calibration,
            memory_share=section.memory_share,
            volume=section.volume,
            bounds=tuple(Bound(part.metric, part.at_most, part.at_least) for part in section.constraints),
            purpose=section.purpose,
            resolved=to_plain(section.model_dump(mode="python", exclude_none=True, by_alias=True, exclude={"quick"})),
            inputs=tuple(InputFile(str(file.resolve()), digest_of(file)) for file in dict.fromkeys(self._inputs)),
        )

    def _name_faults(self) -> Iterator[Fault]:
        names = [part.name for part in self._section.compare]
        for place, part in enumerate(self._section.compare):
            at: KeyPath = ("compare", place)
            if part.name in names[:place]:
                yield self._document.fault((*at, "name"), f"two contenders are called {part.name!r}")
            change = part.change
            wanted = [((*at, "of"), part.of)] if part.of else []
            if change is not None and change.take is not None:
                wanted.append(((*at, "change", "take", "from"), change.take.from_))
            for path, name in wanted:
                if name not in names[:place]:
                    known = f"expected {one_of(names[:place])}" if place else "it is the first"
                    hint = did_you_mean(str(name), names[:place])
                    yield self._document.fault(path, f"no contender {name!r} above it{hint}; {known}")
        reference = self._section.reference
        if reference is not None and reference not in names:
            message = f"no contender {reference!r}{did_you_mean(reference, names)}; expected {one_of(names)}"
            yield self._document.fault(("reference",), message)

    def _aim_faults(self) -> Iterator[Fault]:
        """Objectives that are neither an aim nor a metric with a better direction."""
        for place, aim in enumerate(self._section.objectives):
            at: KeyPath = ("objectives", place)
            if aim in self._section.objectives[:place]:
                yield self._document.fault(at, f"{aim!r} is named twice")
            if aim in AIMS:
                continue
            try:
                known = metric(aim).direction != NEITHER and aggregate_of(aim) is None
            except InputError:
                known = False
            if not known:
                hint = did_you_mean(aim, (*AIMS, *METRICS))
                message = f"{aim!r} is no objective{hint}; expected {one_of(AIMS)} or a metric with a better direction"
                yield self._document.fault(at, message)

    def _bound_faults(self, workloads: Sequence[Workload]) -> Iterator[Fault]:
        """Bounded metrics that the searches cannot know."""
        for place, part in enumerate(self._section.constraints):
            message = bound_message(part.metric, workloads)
            if message:
                yield self._document.fault(("constraints", place, "metric"), message)

    def _take_faults(self, contenders: Sequence[Contender]) -> Iterator[Fault]:
        """Parameters that are taken from another contender and that not both sides have."""
        known = {one.name: [] if one.of else list(_parameters(one)) for one in contenders}
        for one in contenders:
            if one.of in known:
                known[one.name] = known[one.of]
        if len(contenders) < len(self._section.compare):
            return  # what is amiss with the others has been told
        for place, one in enumerate(contenders):
            if one.change.take_from not in known:
                continue
            both = [name for name in known[one.name] if name in known[one.change.take_from]]
            for number, name in enumerate(one.change.parameters):
                if name not in both:
                    expected = f"expected {one_of(both)}" if both else "they share none"
                    message = f"{name!r} is no parameter of both sides{did_you_mean(name, both)}; {expected}"
                    yield self._document.fault(("compare", place, "change", "take", "parameters", number), message)

    def _contenders(self) -> Iterator[Contender]:
        for place, part in enumerate(self._section.compare):
            try:
                yield self._contender(("compare", place), part)
            except InputError as error:
                self._faults.extend(error.faults)

    def _contender(self, at: KeyPath, part: schema.ContenderSection) -> Contender:
        if part.space is not None:
            sets = [Override(f"{key}", tuple(key.split(".")), value) for key, value in part.set.items()]
            spaces = tuple(load_space(path, sets) for path in self._space_files(at, part.space))
            return Contender(part.name, spaces, placements=part.placements)
        if part.design is not None:
            return Contender(part.name, design=self._design((*at, "design"), part.design))
        return Contender(part.name, of=part.of, change=_change(part.change))

    def _space_files(self, at: KeyPath, given: str | tuple[str, ...]) -> list[Path]:
        places: list[KeyPath] = [(*at, "space")]
        if not isinstance(given, str):
            places = [(*at, "space", number) for number in range(len(given))]
        files = [find_from(self._document, place, "spaces") for place in places]
        self._inputs.extend(files)
        return files

    def _design(self, at: KeyPath, ref: str) -> Design:
        run, colon, _ = ref.rpartition(":")
        if colon and run and self._design_of_run is not None:
            return self._design_of_run(ref)
        path = find_from(self._document, at, "designs")
        self._inputs.append(path)
        return load_design(path)


def _parameters(contender: Contender) -> Iterator[str]:
    """Names of the parameters of a contender's spaces, each once."""
    yield from dict.fromkeys(parameter.name for space in contender.spaces for parameter in space.parameters)


def _change(part: schema.ChangeSection | None) -> Change:
    if part is None:
        return Change()
    policy: Mapping[str, object] = part.policy.model_dump(exclude_none=True)
    take = part.take
    return Change(
        part.placement,
        policy,
        None if take is None else take.from_,
        () if take is None else take.parameters,
        dict(part.scale),
    )
