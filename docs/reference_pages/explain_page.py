"""The page of the JSON of an explanation, from the docstrings of what it is made of."""

from __future__ import annotations

import dataclasses
import inspect
import re

from hydra_dse.estimator import explain, explain_handoff, explain_reuse
from hydra_dse.model import operators
from hydra_dse.profile import composition
from reference_pages.table import NOTE, table


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
    explain_handoff.HandoffRow: "explanation.handoff",
    explain_handoff.HandoffLink: "explanation.handoff.links[]",
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
