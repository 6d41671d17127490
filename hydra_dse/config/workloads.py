"""Workload files as nouns: models, arrivals and lengths looked up, recorded requests read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from hydra_dse.config.document import Document, KeyPath
from hydra_dse.config.finder import find, find_from, looks_like_path, path_below
from hydra_dse.config.loader import load_yaml, validate
from hydra_dse.config.overrides import Override, parsed
from hydra_dse.config.plain import put, to_plain
from hydra_dse.config.recordings import TRACE, located, recorded
from hydra_dse.config.workload_overrides import override_workload
from hydra_dse.errors import Fault, InputError
from hydra_dse.model import read_model
from hydra_dse.model.blocks import Model
from hydra_dse.workload.lengths import Empirical
from hydra_dse.workload.nouns import Arrivals, Lengths, RequestClass, Requests, Shift, Slo, Workload
from hydra_dse.workload.prefixes import Prefixes
from hydra_dse.workload.replay import Replay
from hydra_dse.workload.skew import RoutingSkew, with_skew

if TYPE_CHECKING:
    from hydra_dse.config import lengths_schema
    from hydra_dse.config import workload_schema as schema

Result = TypeVar("Result")


@dataclass(frozen=True)
class LoadedWorkload:
    """A workload with what a run directory must know of it.

    Attributes:
        plain: the section as plain data, with all defaults and absolute paths; it loads to the same workload.
        inputs: files it was read from, in order.
    """

    workload: Workload
    plain: dict[str, object]
    inputs: tuple[Path, ...] = ()


def load_workload(ref: str | Path, overrides: Sequence[str | Override] = ()) -> Workload:
    """Return the workload of a file or bundled name.

    Args:
        ref: path of a YAML file, or a bundled name.
        overrides: `key=value` texts that change the file's values before they are checked;
            `arrivals.trace=PATH` replaces the file's arrivals by the replay of a trace.

    Raises:
        InputError: with every fault found.
    """
    path = find("workloads", ref)
    document = override_workload(load_yaml(path), parsed(overrides))
    return build_workload(document, path.stem).workload


def load_model(ref: str | Path) -> Model:
    """Return the model of a `config.json` (or the folder that holds it) or bundled name."""
    path = Path(ref)
    return read_model(path if path.is_dir() else find("models", ref))


def build_workload(document: Document, name: str, model: Document | None = None) -> LoadedWorkload:
    """Turn a document into a workload.

    Args:
        document: the workload's mapping.
        name: used where the document gives none.
        model: a document whose key `model` replaces every model of the workload.

    Raises:
        InputError: with every fault found, those of the files it names included.
    """
    from hydra_dse.config.workload_schema import WorkloadSection

    return _Builder(document, validate(document, WorkloadSection), model).build(name)


@dataclass
class _Builder:
    """Reads the files that a workload names, collecting faults, and puts the nouns together."""

    document: Document
    section: schema.WorkloadSection
    override: Document | None
    faults: list[Fault] = field(default_factory=list)
    inputs: list[Path] = field(default_factory=list)
    models: dict[Path, Model] = field(default_factory=dict)
    located: dict[KeyPath, str] = field(default_factory=dict)

    def build(self, name: str) -> LoadedWorkload:
        replay = self._try(self._replay)
        arrivals = replay[0] if replay is not None else self._try(self._arrivals)
        classes = self._classes(replay[1] if replay is not None else None)
        skew = self._skew()
        models = self._try(lambda: self._routed(skew)) or ()
        if self.faults or arrivals is None:
            raise InputError(self.faults)
        workload = Workload(
            name=self.section.name or name,
            models=models,
            arrivals=arrivals,
            classes=classes,
            replay=replay[1] if replay is not None else None,
            source=self.section.source,
            shifts=self._shifts(),
            cycle_s=self.section.cycle,
            prefixes=self._prefixes(),
            routing=skew,
        )
        self._check_shifts(workload)
        return LoadedWorkload(workload, self._plain(workload.name), tuple(dict.fromkeys(self.inputs)))

    def _prefixes(self) -> Prefixes | None:
        from hydra_dse.config.prefix_schema import prefixes_of

        section = self.section.prefixes
        return None if section is None else prefixes_of(section)

    def _try(self, make: Callable[[], Result]) -> Result | None:
        try:
            return make()
        except InputError as error:
            self.faults.extend(fault for fault in error.faults if fault not in self.faults)
            return None

    def _file(self, path: KeyPath, kind: str | None = None) -> Path:
        """The file named at a key path: of a kind (path or bundled name), or a plain path."""
        bundled = kind is not None and not looks_like_path(str(self.document.get(path)))
        file = find_from(self.document, path, kind) if kind is not None else path_below(self.document, path)
        if not bundled or self.document.override_of(path) is not None:
            self.located[path] = str(file.resolve())
        self.inputs.append(file.resolve())
        return file

    # arrivals ---------------------------------------------------------------------------------------------------

    def _replay(self) -> tuple[Replay, Requests] | None:
        """The replay of a trace with the trace's own lengths, None for any other workload."""
        from hydra_dse.config.workload_schema import Recorded

        section = self.section.arrivals
        if not isinstance(section, Recorded) or section.lengths != "trace":
            return None
        arrivals, requests = self._recorded()
        return arrivals, replace(requests, arrival_s=arrivals.times_s)

    def _recorded(self) -> tuple[Replay, Requests]:
        from hydra_dse.config.workload_schema import Recorded

        section = self.section.arrivals
        if not isinstance(section, Recorded):
            raise InputError(self.document.fault(TRACE, "no trace"))
        return recorded(self.document, section, self._file(TRACE))

    def _arrivals(self) -> Arrivals:
        section = self.section.arrivals
        from hydra_dse.config.workload_schema import Recorded, process_of

        if isinstance(section, Recorded):
            return self._recorded()[0]
        return located(self.document, ("arrivals",), lambda: process_of(section))

    # classes ----------------------------------------------------------------------------------------------------

    def _classes(self, recorded: Requests | None) -> tuple[RequestClass, ...]:
        common = self._lengths(("lengths",), self.section.lengths)
        if recorded is not None:
            common = Empirical(recorded.prompt_tokens, recorded.output_tokens)
        model = self._model(("model",), self.section.model)
        if not self.section.classes:
            return self._one_class(common, model)
        total = sum(kind.share for kind in self.section.classes)
        classes = []
        for index, kind in enumerate(self.section.classes):
            path: KeyPath = ("classes", index)
            own = self._lengths((*path, "lengths"), kind.lengths)
            lengths = common if recorded is not None else own or common
            served = self._model((*path, "model"), kind.model)
            served = model if served is None else served
            if lengths is not None and served is not None:
                slo = _slo(kind.slo or self.section.slo)
                classes.append(RequestClass(kind.name, lengths, kind.share / total, slo, kind.priority, served))
            elif served is None and not self.faults:
                self.faults.append(self._no_model(path))
        return tuple(classes)

    def _one_class(self, lengths: Lengths | None, model: int | None) -> tuple[RequestClass, ...]:
        if model is None and not self.faults:
            self.faults.append(self._no_model(()))
        if lengths is None or model is None:
            return ()
        return (RequestClass("all", lengths, slo=_slo(self.section.slo), model_index=model),)

    def _no_model(self, path: KeyPath) -> Fault:
        return self.document.fault((*path, "model"), "missing key 'model'; give a bundled name or a config.json")

    def _model(self, path: KeyPath, ref: str | None) -> int | None:
        """Index of the model named at a key path, read once however often it is named."""
        file: Path | None = None
        if self.override is not None and self.override.data.get("model") is not None:
            file = self._try(lambda: find_from(self.override or self.document, ("model",), "models"))
        elif ref is not None:
            file = self._try(lambda: self._file(path, "models"))
        if file is None:
            return None
        key = file.resolve()
        if key not in self.models:
            model = self._try(lambda: read_model(key))
            if model is None:
                return None
            self.inputs.append(key)
            self.models[key] = model
        return list(self.models).index(key)

    def _lengths(self, path: KeyPath, section: object) -> Lengths | None:
        from hydra_dse.config.lengths_schema import EmpiricalSection, JointSection, LengthsFile, lengths_of

        if isinstance(section, str):
            file = self._try(lambda: self._file(path, "lengths"))
            loaded = self._try(lambda: validate(load_yaml(file), LengthsFile)) if file is not None else None
            return lengths_of(loaded) if loaded is not None else None
        if isinstance(section, EmpiricalSection):
            return self._try(lambda: self._empirical(path, section))
        return lengths_of(section) if isinstance(section, JointSection) else None

    def _empirical(self, path: KeyPath, section: lengths_schema.EmpiricalSection) -> Lengths:
        from hydra_dse.config.lengths_schema import columns_of
        from hydra_dse.workload.traces.read import read_lengths

        if section.rows is not None:
            rows = np.asarray(section.rows, dtype=np.int64)
            return Empirical(rows[:, 0], rows[:, 1])
        return read_lengths(self._file((*path, "path")), columns=columns_of(section.columns), limit=section.limit)

    # experts ----------------------------------------------------------------------------------------------------

    def _skew(self) -> RoutingSkew:
        section = self.section.routing
        if section is None:
            return RoutingSkew()
        shares = section.layer_shares or ((section.shares,) if section.shares is not None else ())
        return RoutingSkew(section.zipf or 0.0, shares)

    def _routed(self, skew: RoutingSkew) -> tuple[Model, ...]:
        section = self.section.routing
        key = "layer_shares" if section is not None and section.layer_shares is not None else "shares"
        return located(
            self.document, ("routing", key), lambda: tuple(with_skew(model, skew) for model in self.models.values())
        )

    # shifts and plain data ----------------------------------------------------------------------------------------

    def _shifts(self) -> tuple[Shift, ...]:
        names = [kind.name for kind in self.section.classes]
        return tuple(
            Shift(
                shift.at,
                None if shift.shares is None else tuple(shift.shares.get(name, 0.0) for name in names),
                shift.rate_factor,
            )
            for shift in self.section.shifts
        )

    def _check_shifts(self, workload: Workload) -> None:
        from hydra_dse.workload.shifts import phases

        located(self.document, ("shifts",), lambda: phases(workload))

    def _plain(self, name: str) -> dict[str, object]:
        plain: dict[str, Any] = to_plain(self.section.model_dump(exclude_none=True))
        for path, text in self.located.items():
            put(plain, path, text)
        if self.override is not None and self.override.data.get("model") is not None:
            for part in (plain, *plain["classes"]):
                part.pop("model", None)
        return {**plain, "name": name}


def _slo(section: schema.SloSection | None) -> Slo:
    return Slo() if section is None else Slo(section.ttft, section.tpot, section.percentile)
