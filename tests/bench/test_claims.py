"""The page of claims is current, complete, and computed from profiles that say what the published tables say."""

from __future__ import annotations

import csv
import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from hydra_dse.bench.readers import read_profiles

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
FOLDER = Path(os.environ.get("HYDRA_DSE_REFERENCE", ROOT.parent / "shared" / "reference")) / "dabench"
needs_reference = pytest.mark.skipif(not FOLDER.is_dir(), reason=f"no reference data at {FOLDER}")


def script(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # dataclasses look their module up by name
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_the_page_of_claims_is_what_data_and_models_say_now() -> None:
    module = script(DOCS / "generate_claims.py")
    assert (DOCS / "dabench-claims.md").read_text(encoding="utf-8") == module.page(), "run docs/generate_claims.py"


@pytest.mark.parametrize(
    ("value", "low", "high", "said"),
    [
        (92.0, 92, 93, "agrees"),
        (34.6, 34.3, 34.3, "agrees (+0.9%)"),
        (50.0, 34.3, 34.3, "does not agree (+46%)"),
        (40.0, -40, -40, "does not agree (opposite sign)"),
        (20.0, None, 41, "agrees"),
        (0.5, 0.96, 1.0, "does not agree (-48%)"),
    ],
)
def test_a_verdict_follows_from_the_distance(value: float, low: float | None, high: float | None, said: str) -> None:
    module = script(DOCS / "generate_claims.py")
    assert module.verdict(module.Answer("measured", "", value), low, high) == said


@needs_reference
def test_every_published_claim_is_answered_with_its_own_figures() -> None:
    stated = yaml.safe_load((DOCS / "dabench-claims.yaml").read_text(encoding="utf-8"))["claims"]
    with (FOLDER / "paper_claims.csv").open(encoding="utf-8") as file:
        published = list(csv.DictReader(file))
    assert len(stated) == len(published) == 18
    for ours, theirs in zip(stated, published, strict=True):
        assert ours["platform"] == theirs["platform"]
        # Qualitative claims about batches are held against an elasticity of 1.
        for key in ("low", "high"):
            if theirs[f"value_{key}"]:
                assert ours[key] == float(theirs[f"value_{key}"])


@needs_reference
def test_the_profiles_of_the_page_are_those_of_the_published_tables() -> None:
    module = script(ROOT / "benchmarks" / "select_profiles.py")
    own = read_profiles(DOCS / "dabench-profiles.csv")
    assert own == module.selected(FOLDER)
    assert all(profile.source and "/work" not in profile.source for profile in own)
