"""Loads of a study: every workload for every model, with the service level that the study states."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from hydra_dse.config.document import Document, KeyPath
from hydra_dse.config.finder import find_from
from hydra_dse.config.hardware import load_calibration, load_from
from hydra_dse.config.overrides import Override
from hydra_dse.config.workloads import load_workload
from hydra_dse.design.comparison import Load
from hydra_dse.errors import Fault, InputError
from hydra_dse.hardware.calibration import CalibrationSet

if TYPE_CHECKING:
    from hydra_dse.config.comparison_schema import ComparedWorkloadSection


@dataclass
class StudyFile:
    """A study's document with what was read and what was found wrong."""

    document: Document
    inputs: list[Path]
    faults: list[Fault] = field(default_factory=list)

    def loads(self, models: Sequence[str], workloads: Sequence[ComparedWorkloadSection]) -> Iterator[Load]:
        """Every workload with every model, those of one workload together; what fails is a fault."""
        for place, part in enumerate(workloads):
            path = self.found(("workloads", place, "workload"), "workloads")
            if path is not None:
                for number, model in enumerate(models):
                    yield from self._load(place, part, path, number, model)

    def found(self, path: KeyPath, kind: str) -> Path | None:
        """The file that a value names; None, with a fault, where there is none."""
        try:
            file = find_from(self.document, path, kind)
        except InputError as error:
            self.faults.extend(error.faults)
            return None
        self.inputs.append(file)
        return file

    def calibration(self) -> CalibrationSet | None:
        """The calibration that the document names, the default one where it names none."""
        if "calibration" not in self.document.data:
            return load_calibration("default")
        try:
            return load_from(self.document, ("calibration",), load_calibration)
        except InputError as error:
            self.faults.extend(error.faults)
            return None

    def _load(self, place: int, part: ComparedWorkloadSection, path: Path, number: int, model: str) -> Iterator[Load]:
        file = self.found(("models", number), "models")
        if file is None:
            return
        try:
            served = load_workload(path, _overrides(part, model if file.stem == model else str(file.resolve())))
        except InputError as error:
            self.faults.extend(error.faults)
            return
        if len({kind.model_index for kind in served.classes}) > 1:
            message = "has several models; a study of this kind takes one"
            self.faults.append(self.document.fault(("workloads", place, "workload"), message))
        yield Load(model, part.workload, served)


def check_command(document: Document, path: Path, command: str) -> None:
    """Refuse a file that is for another command, before its keys are called unknown.

    Raises:
        InputError: it has no section of that command, and is an experiment to search or a study of another kind.
    """
    if command in document.data:
        return
    others = {"compare": "compare", "variance": "variance", "scenarios": "robustness", "space": "sweep"}
    meant = next((others[key] for key in others if key in document.data), None)
    if meant is not None:
        message = f"has no section {command!r}; its command is hydra-dse {meant} {path.stem}"
        raise InputError(Fault(message, document.file))


def _overrides(part: ComparedWorkloadSection, model: str) -> list[Override]:
    sets: list[tuple[KeyPath, object]] = [(("model",), model)]
    if part.arrivals == "poisson":
        sets.append((("arrivals",), {"process": "poisson", "rate": "1 req/s"}))
    sets.append((("slo",), part.slo.model_dump(mode="json", exclude_none=True)))
    return [Override(".".join(str(step) for step in path), path, value) for path, value in sets]
