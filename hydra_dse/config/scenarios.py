"""The scenarios of an experiment: every model with every workload, built and checked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hydra_dse.config.document import Document, KeyPath
from hydra_dse.config.finder import find_from, looks_like_path
from hydra_dse.config.loader import load_yaml
from hydra_dse.config.workloads import LoadedWorkload, build_workload
from hydra_dse.design.experiment import Scenario, ScenarioSettings
from hydra_dse.errors import Fault, InputError
from hydra_dse.workload.nouns import Workload
from hydra_dse.workload.sampling import at_rate

if TYPE_CHECKING:
    from hydra_dse.config.experiment_schema import ExperimentSection, ScenariosSection


@dataclass
class LoadedScenarios:
    """The scenarios with what a stored experiment must know of them.

    Attributes:
        plain: the section as plain data that loads to the same scenarios.
        inputs: files that were read.
        faults: what is wrong; `settings` is then not to be used.
    """

    settings: ScenarioSettings = field(default_factory=ScenarioSettings)
    plain: dict[str, object] = field(default_factory=dict)
    inputs: list[Path] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)


def scenarios_of(
    document: Document, section: ExperimentSection, own: Callable[[], LoadedWorkload]
) -> LoadedScenarios | None:
    """Build the scenarios of an experiment; None where it has none.

    Args:
        document: of the experiment.
        section: the same, checked.
        own: the experiment's own workload, which serves where the section names none.
    """
    if section.scenarios is None:
        return None
    found = LoadedScenarios()
    builder = _Builder(document, section, section.scenarios, own, found)
    try:
        builder.build()
    except InputError as error:
        found.faults.extend(fault for fault in error.faults if fault not in found.faults)
    return found


@dataclass
class _Builder:
    document: Document
    section: ExperimentSection
    scenarios: ScenariosSection
    own: Callable[[], LoadedWorkload]
    found: LoadedScenarios

    def build(self) -> None:
        models = [self._model(index) for index in range(len(self.scenarios.models or ()))]
        items: list[Scenario] = []
        plain: list[dict[str, object]] = []
        for place, load in self._loads(models):
            loaded = load[0]
            for workload in load[1]:
                model = "+".join(one.name for one in workload.models)
                name = f"{model}/{workload.name}"
                if any(item.name == name for item in items):
                    message = f"two scenarios are called {name!r}; name workloads (`name:`) and models apart"
                    self.found.faults.append(self.document.fault(place, message))
                items.append(Scenario(name, model, workload.name, workload))
            plain.append(loaded.plain)
            self.found.inputs.extend(loaded.inputs)
        self.found.settings = ScenarioSettings(tuple(items), self.scenarios.load, self.scenarios.probe)
        self.found.plain = {"load": self.scenarios.load, "probe": self.scenarios.probe, "models": models or None}
        self.found.plain["workloads"] = plain if self.scenarios.workloads is not None else None
        self.found.plain = {key: value for key, value in self.found.plain.items() if value is not None}

    def _model(self, index: int) -> str:
        """The model as a stored experiment names it: a bundled name, or an absolute path."""
        path: KeyPath = ("scenarios", "models", index)
        file = find_from(self.document, path, "models")
        text = str(self.document.get(path))
        self.found.inputs.append(file.resolve())
        return str(file.resolve()) if looks_like_path(text) else text

    def _loads(self, models: list[str]) -> Iterator[tuple[KeyPath, tuple[LoadedWorkload, list[Workload]]]]:
        """Each workload with its key path, and its variants by model."""
        count = len(self.scenarios.workloads or (None,))
        for index in range(count):
            path: KeyPath = ("scenarios", "workloads", index)
            variants = [self._load(path, self._naming(number)) for number in range(len(models))] or [
                self._load(path, self.document if self.section.model is not None else None)
            ]
            yield path, (variants[0], [self._rated(one.workload) for one in variants])

    def _naming(self, number: int) -> Document:
        """The experiment's document as one that names this model for all its requests."""
        value = self.document.get(("scenarios", "models", number))
        return replace(self.document, data={"model": value}, values={}, keys={}, overrides={})

    def _load(self, path: KeyPath, model: Document | None) -> LoadedWorkload:
        value = self.document.get(path)
        if self.scenarios.workloads is None:
            return self.own() if model is None else self._own_under(model)
        if isinstance(value, dict):
            return build_workload(self.document.part(path), f"workload-{path[-1]}", model)
        file = find_from(self.document, path, "workloads")
        self.found.inputs.append(file.resolve())
        return build_workload(load_yaml(file), file.stem, model)

    def _own_under(self, model: Document) -> LoadedWorkload:
        """The experiment's own workload, serving another model."""
        value = self.document.data.get("workload")
        if isinstance(value, dict):
            return build_workload(self.document.part(("workload",)), str(self.document.data.get("name", "own")), model)
        file = find_from(self.document, ("workload",), "workloads")
        return build_workload(load_yaml(file), file.stem, model)

    def _rated(self, workload: Workload) -> Workload:
        return workload if self.section.rate is None else at_rate(workload, self.section.rate)
