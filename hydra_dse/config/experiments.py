"""Experiment files: a workload, a space, what to optimise, and how to search and validate.

`Experiment.resolved` is the experiment with every default, reference and override written out.  Stored as YAML it
loads to the same experiment anywhere: worker processes and later commands read it from the run directory.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from hydra_dse.config.document import Document, leaves
from hydra_dse.config.finder import find, find_from, looks_like_path
from hydra_dse.config.hardware import load_calibration, load_from
from hydra_dse.config.loader import load_yaml, validate
from hydra_dse.config.objectives import metric_faults
from hydra_dse.config.overrides import Override, apply_overrides, parsed, quick_overrides, split_overrides
from hydra_dse.config.plain import put, to_plain
from hydra_dse.config.scenarios import LoadedScenarios, scenarios_of
from hydra_dse.config.spaces import plain_space, space_of
from hydra_dse.config.workload_overrides import override_workload
from hydra_dse.config.workloads import LoadedWorkload, build_workload
from hydra_dse.design.experiment import (
    Bound,
    DynamicSettings,
    Experiment,
    InputFile,
    ScenarioSettings,
    SearchSettings,
    ValidationSettings,
)
from hydra_dse.design.space import SearchSpace
from hydra_dse.errors import Fault, InputError
from hydra_dse.hardware.calibration import CalibrationSet
from hydra_dse.workload.sampling import at_rate

if TYPE_CHECKING:
    from hydra_dse.config.experiment_schema import ExperimentSection

Result = TypeVar("Result")


def load_experiment(ref: str | Path, overrides: Sequence[str | Override] = (), *, quick: bool = False) -> Experiment:
    """Return the experiment of a file or bundled name.

    Args:
        ref: path of a YAML file (a run directory's `experiment.yaml` included), or a bundled name.
        overrides: `key=value` texts; `workload.…` and `space.…` reach into the files that the experiment names.
        quick: with the values of the file's section `quick` in place, before the overrides.

    Raises:
        InputError: with every fault found, those of the files it names included.
    """
    path = find("experiments", ref)
    document = load_yaml(path)
    if quick:
        document = apply_overrides(document, quick_overrides(document))
    return build_experiment(document, parsed(overrides), path)


def build_experiment(document: Document, overrides: Sequence[Override], path: Path) -> Experiment:
    """Turn the document of an experiment file into an experiment.

    Raises:
        InputError: with every fault found.
    """
    for command in ("compare", "variance"):
        if command in document.data:
            message = f"is no experiment to search; its command is hydra-dse {command} {path.stem}"
            raise InputError(document.fault((command,), message, at_key=True))
    for_workload, others = split_overrides(overrides, "workload")
    for_space, others = split_overrides(others, "space")
    others = (*others, *_purpose(document, overrides))
    return _Builder(apply_overrides(document, others), for_workload, for_space, [path]).build(path.stem)


def _purpose(document: Document, overrides: Sequence[Override]) -> Iterator[Override]:
    """The file's purpose with what it is no longer true of, where overrides change what is served or searched."""
    names = [override.name for override in overrides if override.path[0] in ("model", "workload", "space", "scenarios")]
    own, named = document.data.get("purpose"), any(override.path[0] == "purpose" for override in overrides)
    if names and own and isinstance(own, str) and not named:
        yield Override("purpose", ("purpose",), f"{own} (changed: {', '.join(dict.fromkeys(names))})")


@dataclass
class _Builder:
    """Reads what an experiment names, collecting faults."""

    document: Document
    for_workload: tuple[Override, ...]
    for_space: tuple[Override, ...]
    inputs: list[Path]
    faults: list[Fault] = field(default_factory=list)
    scenarios: LoadedScenarios | None = None

    def build(self, stem: str) -> Experiment:
        from hydra_dse.config.experiment_schema import ExperimentSection

        section = self._try(lambda: validate(self.document, ExperimentSection))
        if section is not None:
            self._trust(section)
        workload = self._try(self._workload)
        space = self._try(self._space)
        calibration = self._try(self._calibration)
        if section is not None:
            self.inputs.extend(workload.inputs if workload is not None else ())
            self.faults.extend(self._changes(section))
            self._read_scenarios(section)
            self._check_dynamic(section, workload)
            served = workload.workload if workload is not None else None
            served_by = tuple(die_groups(space[1])) if space is not None else None
            several = self.scenarios.settings.items if self.scenarios is not None else ()
            self.faults.extend(metric_faults(self.document, section, served, served_by, several))
        if self.faults or section is None or workload is None or space is None or calibration is None:
            raise InputError(self.faults)
        resolved = self._resolved(section, section.name or stem, workload, space[1])
        served = workload.workload
        return Experiment(
            name=section.name or stem,
            workload=served if section.rate is None else at_rate(served, section.rate),
            space=space[0],
            objectives=section.objectives,
            bounds=tuple(Bound(part.metric, part.at_most, part.at_least) for part in section.constraints),
            search=SearchSettings(**section.search.model_dump()),
            validation=ValidationSettings(**section.validation.model_dump()),
            calibration=calibration,
            resolved=resolved,
            inputs=self._digests(section),
            dynamic=_dynamic(section),
            scenarios=self.scenarios.settings if self.scenarios is not None else ScenarioSettings(),
        )

    def _check_dynamic(self, section: ExperimentSection, loaded: LoadedWorkload | None) -> None:
        """A study of task maps needs a load that shifts again and again, and promises to keep."""
        if section.dynamic is None or loaded is None:
            return
        workload = loaded.workload
        if not workload.shifts or workload.cycle_s is None:
            message = f"needs shifts that repeat, and workload {workload.name!r} has none; give it `shifts` and `cycle`"
            self.faults.append(self.document.fault(("dynamic",), message))
        if not workload.promises:
            message = f"needs an SLO, and workload {workload.name!r} states none; add `slo` to it or to its classes"
            self.faults.append(self.document.fault(("dynamic",), message))

    def _read_scenarios(self, section: ExperimentSection) -> None:
        self.scenarios = scenarios_of(self.document, section, self._workload)
        if self.scenarios is not None:
            self.inputs.extend(self.scenarios.inputs)
            self.faults.extend(fault for fault in self.scenarios.faults if fault not in self.faults)

    def _try(self, make: Callable[[], Result]) -> Result | None:
        try:
            return make()
        except InputError as error:
            self.faults.extend(fault for fault in error.faults if fault not in self.faults)
            return None

    def _trust(self, section: ExperimentSection) -> None:
        """Let a stored experiment name its inputs by absolute path."""
        self.document = replace(self.document, trusted=frozenset(item.path for item in section.inputs))

    def _changes(self, section: ExperimentSection) -> Iterator[Fault]:
        """Inputs of a stored experiment that were read again and are not what they were."""
        read = {str(path) for path in self.inputs}
        for index, item in enumerate(section.inputs):
            if item.path in read and digest_of(Path(item.path)) != item.sha256:
                message = f"{item.path} has changed since the experiment was stored; restore it or start a new run"
                yield self.document.fault(("inputs", index), message)

    def _workload(self) -> LoadedWorkload:
        document, name = self._part("workload", "workloads")
        replaces = self.document if self.document.data.get("model") is not None else None
        return build_workload(override_workload(document, self.for_workload), name, replaces)

    def _space(self) -> tuple[SearchSpace, dict[str, object]]:
        document, name = self._part("space", "spaces")
        document = apply_overrides(document, self.for_space)
        space = space_of(document, name)
        plain = {"name": space.name, **plain_space(document)}
        for path, text in leaves(plain):
            if isinstance(text, str) and looks_like_path(text) and path[-1] != "source":
                file = (document.folder or Path()) / text
                if file.is_file():
                    self.inputs.append(file.resolve())
                    put(plain, path, str(file.resolve()))
        return space, plain

    def _part(self, key: str, kind: str) -> tuple[Document, str]:
        """The document of a section that is written here, or in a file named here."""
        value = self.document.data.get(key)
        if isinstance(value, dict):
            return self.document.part((key,)), f"{self.document.data.get('name', key)}"
        if not isinstance(value, str):
            raise InputError(())
        path = find_from(self.document, (key,), kind)
        self.inputs.append(path.resolve())
        return load_yaml(path), path.stem

    def _calibration(self) -> CalibrationSet:
        if self.document.data.get("calibration") is None:
            return load_calibration("measured")
        if looks_like_path(str(self.document.data["calibration"])):
            self.inputs.append(find_from(self.document, ("calibration",), "calibrations").resolve())
        return load_from(self.document, ("calibration",), load_calibration)

    def _digests(self, section: ExperimentSection) -> tuple[InputFile, ...]:
        """Every file read, without those of a stored experiment's own folder."""
        stored = {item.path for item in section.inputs}
        files = [path for path in dict.fromkeys(self.inputs) if path.exists()]
        own = {self.inputs[0]} if section.inputs else set()
        found = {str(path.resolve()): digest_of(path) for path in files if path not in own}
        found.update({item.path: item.sha256 for item in section.inputs if item.path in stored})
        return tuple(InputFile(path, found[path]) for path in sorted(found))

    def _resolved(
        self, section: ExperimentSection, name: str, workload: LoadedWorkload, space: dict[str, object]
    ) -> dict[str, object]:
        plain = section.model_dump(mode="python", exclude_none=True, exclude={"quick"})
        plain.update(name=name, workload=workload.plain, space=space)
        if self.scenarios is not None:
            plain["scenarios"] = self.scenarios.plain
        for key, kind in (("model", "models"), ("calibration", "calibrations")):
            if looks_like_path(str(plain.get(key, ""))):
                plain[key] = str(find_from(self.document, (key,), kind).resolve())
        plain["inputs"] = [vars(item) for item in self._digests(section)]
        return dict(to_plain(plain))


def _dynamic(section: ExperimentSection) -> DynamicSettings | None:
    given = section.dynamic
    if given is None:
        return None
    policy = {name: value for name, value in given.model_dump().items() if name.startswith("role_")}
    return DynamicSettings(given.task_maps, given.cycles, given.loads, given.least_cycles, policy)


def die_groups(space: Mapping[str, object]) -> Iterator[str]:
    """Yield the names of the die groups of a space as plain data."""
    dies = space.get("dies")
    yield from dies if isinstance(dies, dict) else ()


def digest_of(path: Path) -> str:
    """SHA-256 of a file, or of the names and contents of a folder's files."""
    text = hashlib.sha256()
    if path.is_dir():
        for file in sorted(path.iterdir()):
            if file.is_file():
                text.update(f"{file.name}\0{digest_of(file)}\0".encode())
        return text.hexdigest()
    with path.open("rb") as stream:
        while block := stream.read(1 << 20):
            text.update(block)
    return text.hexdigest()
