"""Models from Hugging Face `config.json` files: one short reader per family, found by `model_type`.

A preset of ours wraps the keys that a reader needs: `{"preset": name, "source": where from, "config": {…}}`, or gives
another name to a preset beside it: `{"preset": name, "same_as": other}`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from hydra_dse.errors import did_you_mean
from hydra_dse.model.blocks import Model
from hydra_dse.model.huggingface import delta, dense, granite, jamba, lfm2, mamba, nemotron, parallel, sparse, zamba
from hydra_dse.model.huggingface.document import read_document
from hydra_dse.model.huggingface.fields import Fields

READERS: dict[str, Callable[[Fields], Model]] = {
    "bamba": granite.read_bamba,
    "deepseek_v3": sparse.read_deepseek_v3,
    "falcon_h1": parallel.read_falcon_h1,
    "falcon_mamba": mamba.read_mamba,
    "gpt_oss": sparse.read_gpt_oss,
    "granitemoehybrid": granite.read_granite_hybrid,
    "hymba": parallel.read_hymba,
    "jamba": jamba.read_jamba,
    "kimi_k3": delta.read_kimi_k3,
    "kimi_linear": delta.read_kimi_linear,
    "lfm2": lfm2.read_lfm2,
    "lfm2_moe": lfm2.read_lfm2_moe,
    "llama": dense.read_llama,
    "mamba": mamba.read_mamba,
    "mamba2": mamba.read_mamba2,
    "mistral": dense.read_mistral,
    "mixtral": sparse.read_mixtral,
    "nemotron_h": nemotron.read_nemotron_h,
    "qwen2": dense.read_qwen2,
    "qwen3": dense.read_qwen3,
    "qwen3_5": delta.read_qwen3_5,
    "qwen3_5_moe": delta.read_qwen3_5,
    "qwen3_5_moe_text": delta.read_qwen3_5,
    "qwen3_5_text": delta.read_qwen3_5,
    "qwen3_moe": sparse.read_qwen3_moe,
    "qwen3_next": delta.read_qwen3_next,
    "zamba": zamba.read_zamba,
    "zamba2": zamba.read_zamba2,
}
"""Reader of each supported `model_type`."""

STATE_SPACES = "state_spaces"
"""Family name of files in the state-spaces dialect, which have no `model_type`."""


def read_model(path: str | Path) -> Model:
    """Read a `config.json` (or the folder that holds it) or a preset.

    Raises:
        InputError: the file cannot be read as a supported model; the fault names the file and the line of the key.
    """
    file = Path(path)
    if file.is_dir():
        file = file / "config.json"
    fields = Fields(read_document(file))
    if not fields.has("preset"):
        return _read(fields, _file_name(file), str(file))
    name = fields.word("preset")
    if fields.has("same_as"):
        return replace(read_model(_beside(file, fields)), name=name)
    return _read(fields.section("config"), name, fields.word("source"))


def _read(fields: Fields, name: str, source: str) -> Model:
    family, reader = _reader(fields)
    return replace(reader(fields), name=name, family=family, source=source)


def _beside(file: Path, fields: Fields) -> Path:
    """The preset that another one stands for: a file of the same folder that is not itself a second name."""
    name = fields.word("same_as")
    other = file.parent / f"{name}.json"
    if Path(name).name != name or not other.is_file() or Fields(read_document(other)).has("same_as"):
        fields.fail(f"expected the name of a preset in the same folder, found {name!r}", "same_as")
    return other


def _file_name(file: Path) -> str:
    return file.resolve().parent.name if file.stem == "config" else file.stem


def _reader(fields: Fields) -> tuple[str, Callable[[Fields], Model]]:
    if not fields.has("model_type") and fields.has("d_model") and fields.has("n_layer"):
        return STATE_SPACES, mamba.read_state_spaces
    family = fields.word("model_type") or _from_architecture(fields)
    if not family:
        fields.missing("model_type")
    if family not in READERS:
        hint = did_you_mean(family, READERS)
        fields.fail(f"unsupported model type {family!r}{hint}; supported: {', '.join(READERS)}", "model_type")
    return family, READERS[family]


def _from_architecture(fields: Fields) -> str:
    """Family by the class in `architectures`, for extracts of files that lack `model_type`."""
    classes = fields.words("architectures") or ()
    by_name = {family.replace("_", ""): family for family in READERS}
    for name in classes:
        stem = name.lower().removesuffix("forcausallm").removesuffix("forconditionalgeneration")
        if stem in by_name:
            return by_name[stem]
    return ""
