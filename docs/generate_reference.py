"""Write the pages of `docs/reference/` that repeat what the code says: `python docs/generate_reference.py`.

Keys, types and defaults come from the pydantic schemas, options from click, metrics from the registry, assumptions
from the hardware library.  What a key means is in `docs/meanings.yaml`; a test holds the two together.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import annotated_types
import click
import yaml
from pydantic import BeforeValidator
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from hydra_dse import units
from hydra_dse.bundle.metrics import registry as trace_registry
from hydra_dse.bundle.reading.rules import RULES
from hydra_dse.cli.app import COMMANDS, app
from hydra_dse.config import (
    design_schema,
    experiment_schema,
    hardware_schema,
    lengths_schema,
    prefix_schema,
    space_schema,
    technology_schema,
    workload_schema,
)
from hydra_dse.config.fields import Section
from hydra_dse.config.library import KINDS, LIBRARY
from hydra_dse.estimator import explain, explain_reuse
from hydra_dse.estimator.intervals import ERRORS, LOADS
from hydra_dse.model import operators
from hydra_dse.profile import composition
from hydra_dse.results import METRICS

DOCS = Path(__file__).resolve().parent
NOTE = "<!-- Written by docs/generate_reference.py; change the code or docs/meanings.yaml, then run it. -->\n\n"

# Pages of YAML keys: heading → the sections of that file, the outermost first.
FILES: dict[str, tuple[type[Section], ...]] = {
    "Experiment": (
        experiment_schema.ExperimentSection,
        experiment_schema.ConstraintSection,
        experiment_schema.SearchSection,
        experiment_schema.ValidationSection,
        experiment_schema.ScenariosSection,
        experiment_schema.DynamicSection,
        experiment_schema.InputSection,
    ),
    "Workload": (
        workload_schema.WorkloadSection,
        workload_schema.FixedRate,
        workload_schema.Poisson,
        workload_schema.Gamma,
        workload_schema.Modulated,
        workload_schema.Steps,
        workload_schema.PhaseSection,
        workload_schema.Wave,
        workload_schema.Recorded,
        workload_schema.AddedProcess,
        lengths_schema.ColumnsSection,
        workload_schema.ClassSection,
        workload_schema.SloSection,
        workload_schema.ShiftSection,
        workload_schema.RoutingSection,
        lengths_schema.JointSection,
        lengths_schema.LognormalSection,
        lengths_schema.QuantilesSection,
        lengths_schema.EmpiricalSection,
        lengths_schema.LengthsFile,
        prefix_schema.PrefixesSection,
        prefix_schema.SystemPromptsSection,
        prefix_schema.SessionsSection,
        prefix_schema.TurnsSection,
        prefix_schema.ThinkSection,
    ),
    "Design": (
        design_schema.DesignSection,
        design_schema.PackageSection,
        design_schema.GridSection,
        design_schema.FloorplanSection,
        design_schema.SlotSection,
        design_schema.LinkChoiceSection,
        design_schema.LimitsSection,
        design_schema.DieGroupSection,
        design_schema.MemoryGroupSection,
        design_schema.MappingSection,
        design_schema.PolicySection,
        design_schema.PlacementSection,
        design_schema.PrecisionSection,
    ),
    "Search space": (
        space_schema.SpaceSection,
        space_schema.ParameterSection,
        space_schema.RangeSection,
        space_schema.CountsSection,
    ),
    "Chiplet": (
        hardware_schema.FixedDieSection,
        hardware_schema.ComposedDieSection,
        hardware_schema.ArraySection,
        hardware_schema.MemoryOnDieSection,
        hardware_schema.DieEnergySection,
    ),
    "Components of the library": (
        hardware_schema.ComponentsSection,
        hardware_schema.ScaledComponentsSection,
        hardware_schema.CoreSection,
        hardware_schema.BankSection,
        hardware_schema.LinkAreaSection,
        hardware_schema.SfuSection,
        hardware_schema.ComponentEnergySection,
    ),
    "Memory": (hardware_schema.MemorySection,),
    "Link": (hardware_schema.LinkSection,),
    "Technology": (
        technology_schema.TechnologySection,
        technology_schema.ProcessesSection,
        technology_schema.ProcessSection,
        technology_schema.DiesSection,
        technology_schema.InterposerSection,
        technology_schema.SubstrateSection,
        technology_schema.EconomicsSection,
        technology_schema.CoolingSection,
        technology_schema.SolidSection,
        technology_schema.LeakageSection,
    ),
    "Calibration": (hardware_schema.CalibrationSetSection, hardware_schema.CalibrationSection),
}

# What a section is called in its heading, by class.
TITLES = {
    "Modulated": "arrivals: mmpp",
    "FixedRate": "arrivals: deterministic",
    "Poisson": "arrivals: poisson",
    "Gamma": "arrivals: gamma",
    "Steps": "arrivals: piecewise",
    "Wave": "arrivals: diurnal",
    "Recorded": "arrivals: trace",
    "AddedProcess": "arrivals: of another package",
    "LengthsFile": "lengths file",
    "JointSection": "lengths: prompt and output",
    "LognormalSection": "length: lognormal",
    "QuantilesSection": "length: quantiles",
    "EmpiricalSection": "lengths: recorded pairs",
    "PhaseSection": "phase or step",
    "GridSection": "topology: grid",
    "FloorplanSection": "topology: floorplan",
    "LinkChoiceSection": "package link",
    "FixedDieSection": "die of fixed size",
    "ComposedDieSection": "composed die",
    "MemoryOnDieSection": "memory on a die",
    "DieEnergySection": "energy of a die",
    "ComponentEnergySection": "energy of components",
    "ScaledComponentsSection": "scaled components",
    "LinkAreaSection": "area of a link",
    "CalibrationSetSection": "calibration file",
    "DieGroupSection": "die group",
    "MemoryGroupSection": "memory group",
    "InputSection": "input file of a stored run",
}


def title(section: type[Section]) -> str:
    """Heading of a section."""
    name = section.__name__
    return TITLES.get(name, name.removesuffix("Section").lower())


def anchor(section: type[Section]) -> str:
    """Link target of a section."""
    return "yaml-" + re.sub(r"[^a-z0-9]+", "-", title(section))


def meanings() -> dict[str, dict[str, str]]:
    """What each key means, by section class and key."""
    found: dict[str, dict[str, str]] = yaml.safe_load((DOCS / "meanings.yaml").read_text(encoding="utf-8"))
    return found


def keys_of(section: type[Section]) -> dict[str, FieldInfo]:
    """Fields of a section by the key that a file writes."""
    return {field.alias or name: field for name, field in section.model_fields.items()}


def documented(section: type[Section], key: str, texts: Mapping[str, Mapping[str, str]]) -> str:
    """Meaning of a key: of the section itself, or of a section it inherits the key from."""
    for base in section.__mro__:
        if key in texts.get(base.__name__, {}):
            return texts[base.__name__][key]
    return ""


def yaml_page() -> str:
    """The tables of all YAML keys."""
    texts = meanings()
    parts = [NOTE, YAML_INTRODUCTION, _units_table()]
    for heading, sections in FILES.items():
        parts.append(f"\n## {heading}\n")
        for section in sections:
            parts.append(f"\n({anchor(section)})=\n### {title(section)}\n\n{_sentence(section)}\n\n")
            rows = [
                (f"`{key}`", type_text(field), _default(field), documented(section, key, texts))
                for key, field in keys_of(section).items()
            ]
            parts.append(table(("key", "value", "default", "meaning"), rows))
    return "".join(parts)


YAML_INTRODUCTION = """# YAML keys

Every key of every input file.  An unknown key, a value without its unit, or a value out of range is a fault with file,
line and column; `hydra-dse check FILE` prints all faults of a file.  Keys without a default must be given.

Files are found by path or by bundled name (`hydra-dse list`).  A path inside a file is relative to that file and stays
below its folder.  `--set a.b=c` replaces a value before the file is checked; a path given there may lie anywhere.

YAML is read as data: `1e9` is a number, `on` and `no` are text, and a key that is written twice is a fault.

"""


def _units_table() -> str:
    rows = [
        (dimension.meaning, ", ".join(f"`{unit}`" for unit in dimension.shown))
        for dimension in units.DIMENSIONS.values()
        if dimension.shown and dimension.name not in ("usd", "joules")
    ]
    text = "Quantities are text with a unit.  GB is 10⁹ bytes, GiB 2³⁰ bytes; `bit` is accepted for a bandwidth.\n\n"
    return text + table(("quantity", "units (among others)"), rows)


def _sentence(section: type[Section]) -> str:
    return " ".join((section.__doc__ or "").split())


def _default(field: FieldInfo) -> str:
    if field.default_factory is not None:
        return "none"
    if field.default is PydanticUndefined:
        return "—"
    if field.default is None or field.default in ("", (), []):
        return "none"
    if isinstance(field.default, Section):
        return "its own defaults"
    dimension = _dimension(_flat(field.annotation, field.metadata)[1])
    shown = units.exact(field.default, dimension) if dimension else field.default
    return f"`{str(shown).lower() if isinstance(shown, bool) else shown}`"


def type_text(field: FieldInfo) -> str:
    """What a key accepts, in words."""
    return _text(*_flat(field.annotation, field.metadata))


def _flat(annotation: Any, metadata: Sequence[Any] = ()) -> tuple[Any, list[Any]]:
    """An annotation without its `Annotated` layers, and all their metadata."""
    found = list(metadata)
    while get_origin(annotation) is Annotated:
        annotation, *more = get_args(annotation)
        found += more
    flat: list[Any] = []
    for item in found:
        flat += item.metadata if isinstance(item, FieldInfo) else [item]
    return annotation, flat


def _dimension(metadata: Sequence[Any]) -> str:
    for item in metadata:
        if isinstance(item, BeforeValidator) and isinstance(item.func, partial):
            return str(item.func.keywords["dimension"])
    return ""


def _text(annotation: Any, metadata: Sequence[Any]) -> str:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        options = [_text(*_flat(option)) for option in arguments if option is not type(None)]
        return " or ".join(dict.fromkeys(options))
    if origin is Literal:
        return ", ".join(f"`{choice}`" for choice in arguments)
    if origin is dict and arguments[1] is Any:
        return "the section itself"
    if origin is dict:
        return f"mapping: {_text(*_flat(arguments[0]))} → {_text(*_flat(arguments[1]))}"
    if origin in (list, tuple):
        return _sequence(origin, arguments, metadata)
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return f"[{title(annotation)}](#{anchor(annotation)})"
    return _scalar(annotation, metadata)


def _sequence(origin: Any, arguments: Sequence[Any], metadata: Sequence[Any]) -> str:
    items = [item for item in arguments if item is not Ellipsis]
    inside = _text(*_flat(items[0]))
    if origin is tuple and len(items) > 1:
        return "[" + ", ".join(_text(*_flat(item)) for item in items) + "]"
    return f"list of {inside}{_bounds(metadata)}"


def _scalar(annotation: Any, metadata: Sequence[Any]) -> str:
    dimension = _dimension(metadata)
    if annotation is Any:
        return "as in a design, with `$parameter` where a value varies"
    if isinstance(annotation, type) and hasattr(annotation, "__members__"):
        return ", ".join(f"`{member.value}`" for member in annotation)
    if dimension:
        return units.DIMENSIONS[dimension].meaning + _bounds(metadata)
    words = {int: "whole number", float: "number", str: "text", bool: "`true`, `false`"}
    if annotation is str and any("pattern" in str(item) for item in metadata):
        return "64 hex digits"
    return words.get(annotation, str(annotation)) + (_bounds(metadata) if annotation in (int, float) else "")


def _bounds(metadata: Sequence[Any]) -> str:
    signs: tuple[tuple[type, str, str], ...] = (
        (annotated_types.Ge, "ge", "≥"),
        (annotated_types.Gt, "gt", ">"),
        (annotated_types.Le, "le", "≤"),
        (annotated_types.Lt, "lt", "<"),
        (annotated_types.MinLen, "min_length", "entries ≥"),
        (annotated_types.MaxLen, "max_length", "entries ≤"),
    )
    found: dict[str, Any] = {}
    for item in metadata:
        for kind, name, sign in signs:
            if isinstance(item, kind):
                value = getattr(item, name)
                if sign in ("≥", ">", "entries ≥") and sign in found:
                    value = max(value, found[sign])
                found[sign] = value
    if "≥" in found and ">" in found:
        found.pop("≥" if found[">"] >= found["≥"] else ">")
    if "≤" in found and "<" in found:
        found.pop("≤" if found["<"] <= found["≤"] else "<")
    if found.get("<") == 2**63:
        found["<"] = "2⁶³"
    shown = [f"{sign} {value:.0f}" if isinstance(value, float) else f"{sign} {value}" for sign, value in found.items()]
    return f" ({', '.join(shown)})" if shown else ""


def cli_page() -> str:
    """Commands, arguments and options."""
    parts = [NOTE, CLI_INTRODUCTION]
    context = click.Context(app)
    for name in COMMANDS:
        command = app.get_command(context, name)
        if command is not None:
            parts += _command(f"hydra-dse {name}", command)
    return "".join(parts)


CLI_INTRODUCTION = """# Command line

`hydra-dse COMMAND --help` prints the same.  Names are those of files or of what is bundled (`hydra-dse list`).

| exit code | meaning |
|---|---|
| 0 | done; an infeasible design is a result |
| 2 | the input is wrong: one message for each fault, and nothing was changed |
| 3 | a search found nothing feasible; its rows are kept |
| 130 | interrupted; what was done is kept, and `--resume` goes on |

"""


def _command(name: str, command: click.Command) -> Iterator[str]:
    if isinstance(command, click.Group):
        context = click.Context(command)
        for inner in command.list_commands(context):
            found = command.get_command(context, inner)
            if found is not None:
                yield from _command(f"{name} {inner}", found)
        return
    arguments = [_metavar(item) for item in command.params if isinstance(item, click.Argument)]
    yield f"## {name}\n\n`{' '.join([name, *arguments, '[OPTIONS]'])}`\n\n{_help(command.help)}\n\n"
    rows = [_option(item) for item in command.params if isinstance(item, click.Option)]
    if rows:
        yield table(("option", "value", "default", "meaning"), rows)
    yield "\n"


def _metavar(argument: click.Argument) -> str:
    name = (argument.name or "").upper()
    name = f"{name}..." if argument.nargs == -1 else name
    return name if argument.required else f"[{name}]"


def _option(option: click.Option) -> tuple[str, str, str, str]:
    names = ", ".join(f"`{name}`" for name in option.opts)
    value = "" if option.is_flag else f"`{option.metavar}`" if option.metavar else _kind(option.type)
    plain = option.default is None or option.is_flag or option.multiple or not isinstance(option.default, int | str)
    needed = "required" if option.required else "" if plain else f"`{option.default}`"
    return names, value, needed, _help(option.help)


def _kind(kind: click.ParamType) -> str:
    if isinstance(kind, click.IntRange):
        return "whole number" + (f" ≥ {kind.min}" if kind.min is not None else "")
    if isinstance(kind, click.Choice):
        return ", ".join(f"`{choice}`" for choice in kind.choices)
    return "path" if isinstance(kind, click.Path) else "text"


def _help(text: str | None) -> str:
    return " ".join((text or "").split()).replace("<", r"\<")


def metrics_page() -> str:
    """The metric registry."""
    rows = [(f"`{m.name}`", m.unit, m.direction, m.definition, m.label) for m in METRICS.values()]
    return NOTE + METRICS_INTRODUCTION + table(("name", "unit", "better", "definition", "label"), rows)


METRICS_INTRODUCTION = """# Metrics

The names of every JSON, CSV, Parquet file and plot.  Units are part of the name; everything is SI except mm².
Times count from arrival, so that queueing is in them.  A value that cannot be computed is `null` or empty.
`utilization_<die group>` stands beside them for each die group of a design: the busy share of its dies (0 to 1).
Under a workload of several models `ttft_mean_s@nemotron-h-8b` and the like are those of the requests of one model.
Objectives may be all metrics with a better direction; constraints may name any.

"""


def trace_metrics_page() -> str:
    """The metrics of traces, and the fields that tools need of a trace."""
    rows = [
        (
            f"`{m.name}`", m.unit, m.category, m.direction, "yes" if m.original else "", m.definition,
            ", ".join(m.functions), m.missing or ", ".join(m.requires),
        )
        for m in trace_registry.own_metrics().values()
    ]  # fmt: skip
    fields = [(f"`{r.name}`", r.where, r.value, r.needed_by, r.applies) for r in RULES]
    head = ("name", "unit", "category", "better", "of CCL-Bench", "definition", "traces", "needs")
    fields_head = ("field", "where", "value", "needed by", "of traces")
    return NOTE + TRACE_INTRODUCTION + table(head, rows) + FIELDS_INTRODUCTION + table(fields_head, fields)


TRACE_INTRODUCTION = """# Metrics of traces

What `hydra-dse trace metrics` computes ([how](../concepts/traces.md)).  A metric of several things has a value for
each, `name@thing`.  Kinds of traces: Chrome/Kineto JSON of ranks (`json`), Nsight Systems exports (`nsys`), TPU
profiler JSON (`json_tpu`); `card` needs none.

"""
FIELDS_INTRODUCTION = """
## Fields that tools need

What `hydra-dse trace check` looks for.  Sources: CCL-Bench's tools at 1d257f0, and what viewers and replays assume.

"""


def assumptions_page() -> str:
    """Every figure of the hardware library that is marked an assumption, with its place."""
    parts = [NOTE, ASSUMPTIONS_INTRODUCTION]
    for kind in KINDS:
        rows = list(_comments(kind)) + list(_assumed(kind))
        parts.append(f"## {kind}\n\n" + table(("where", "assumption"), rows) + "\n")
    return "".join(parts)


ASSUMPTIONS_INTRODUCTION = """# Assumptions of the hardware library

What the library (`hydra_dse/library/*.yaml`) states without a published or measured source.  All other figures carry
their source in the field `source` beside them.  What the models themselves assume stands in the pages of the concepts.

"""


def _assumed(kind: str) -> Iterator[tuple[str, str]]:
    data = yaml.safe_load((LIBRARY / f"{kind}.yaml").read_text(encoding="utf-8"))
    for path, text in _sources(data):
        if text.startswith("Our reading:"):
            yield f"`{'.'.join(path)}`", _cell(text)
        elif "assumption:" in text:
            yield f"`{'.'.join(path)}`", _cell(text.split("assumption:", 1)[1])


def _sources(data: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    if isinstance(data, dict):
        for key, value in data.items():
            if key == "source":
                yield path, str(value)
            else:
                yield from _sources(value, (*path, str(key)))


def _comments(kind: str) -> Iterator[tuple[str, str]]:
    """Sentences of comments that hold for a whole file and call something an assumption."""
    lines = (LIBRARY / f"{kind}.yaml").read_text(encoding="utf-8").splitlines()
    said = " ".join(line.strip().removeprefix("#").strip() for line in lines if line.strip().startswith("#"))
    for sentence in re.split(r"(?<=\.) +(?=[A-Z`])", said):
        if "assumption" in sentence and "`assumption:`" not in sentence:
            yield "all", _cell(sentence)


def _cell(text: str) -> str:
    return " ".join(text.split()).rstrip(".") + "."


def error_page() -> str:
    """The estimator's own error by load, as its intervals use it."""
    head = (
        "metric",
        *(f"load {load:g}" for load in LOADS),
        "per unit of burstiness",
        "of dispersion",
        "full memory",
        "queueing",
    )
    rows = [
        (
            f"`{name}`",
            *(f"{error:.3g}" for error in model.at_loads),
            f"{model.per_burstiness:.3g}",
            f"{model.per_dispersion:.3g}",
            f"{model.full_memory:.3g}",
            "yes" if model.queueing else "no",
        )
        for name, model in ERRORS.items()
    ]
    return NOTE + ERROR_INTRODUCTION + (table(head, rows) if rows else NO_ERRORS)


ERROR_INTRODUCTION = """# Error model of the estimator

90th percentile of the relative error of an estimate by load, linear in between, what is added per unit of |c_a² − 1|
(of arrivals in phases per unit of the index of dispersion beyond 1), and what is added where the cache memory is full
(from nothing at 30 % in use to all of it at 70 %).  "Queueing" says whether an error of the operator times is amplified
by 1/(1 − load).  Measured on the tuning set of the [validation](../validation.md); loads that change in time have no
entries of their own.

"""
NO_ERRORS = "No metric has an entry in this version: estimates carry no interval.\n"


def explain_page() -> str:
    """The keys of `explanation` in the JSON of `estimate --explain`, from the docstrings of what it is made of."""
    parts = [NOTE, EXPLAIN_INTRODUCTION]
    for kind, path in EXPLAINED.items():
        summary, meaning = attributes_of(kind)
        rows = [(f"`{field.name}`", meaning.get(field.name, "")) for field in dataclasses.fields(kind)]
        parts.append(f"## `{path}`\n\n{summary}\n\n{table(('key', 'meaning'), rows)}\n")
    return "".join(parts).rstrip() + "\n"


def attributes_of(kind: type) -> tuple[str, dict[str, str]]:
    """The first paragraph of a docstring, and the meaning of each name under its `Attributes:`."""
    text, _, attributes = (inspect.getdoc(kind) or "").partition("Attributes:")
    meaning: dict[str, str] = {}
    for entry in re.split(r"\n {4}(?=\w)", attributes):
        names, colon, sentence = entry.strip().partition(":")
        if colon:
            meaning |= dict.fromkeys((name.strip() for name in names.split(",")), " ".join(sentence.split()))
    return " ".join(text.split("\n\n")[0].split()), meaning


EXPLAIN_INTRODUCTION = """# JSON of an explanation

`hydra-dse estimate --explain --json` adds the key `explanation` to what `estimate --json` prints.  Seconds, bytes and
shares (0 to 1) throughout.  How to read it: [explain a design](../how-to/explain.md).

"""

# What an explanation is made of, and where it stands in the JSON.
EXPLAINED: dict[type, str] = {
    explain.Explanation: "explanation",
    explain.StackMemory: "explanation.memory[]",
    explain.DecodeBatch: "explanation.decode_batch",
    explain.TypicalIteration: "explanation.iterations[]",
    explain_reuse.PrefixPoint: "explanation.prefix",
    explain_reuse.CurvePoint: "explanation.prefix.curve[]",
    composition.Composition: "explanation.iterations[].composition",
    operators.Batch: "….composition.batch",
    composition.MappedClass: "….composition.operator_map[]",
    composition.OperandBytes: "….composition.bytes[]",
    composition.LinkBytes: "….composition.links[]",
    composition.ClassTime: "….composition.times[]",
    composition.ResourceTime: "….composition.resources[]",
}


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(cell.replace("|", r"\|") for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


PAGES: dict[str, Callable[[], str]] = {
    "reference/yaml.md": yaml_page,
    "reference/cli.md": cli_page,
    "reference/metrics.md": metrics_page,
    "reference/trace-metrics.md": trace_metrics_page,
    "reference/assumptions.md": assumptions_page,
    "reference/error-model.md": error_page,
    "reference/explain.md": explain_page,
}


def main() -> None:
    """Write all pages."""
    for name, page in PAGES.items():
        (DOCS / name).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
