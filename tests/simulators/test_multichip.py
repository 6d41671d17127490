"""Eight sockets that share every operator, executed by operators, against published figures."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def multichip() -> ModuleType:
    spec = importlib.util.spec_from_file_location("multichip", ROOT / "benchmarks" / "multichip.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["multichip"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("tokens", "published_s"), [(256, 0.4012), (1024, 1.584), (2048, 3.288)])
def test_single_requests_of_llama_3_8b_on_eight_rdus_end_when_they_did(
    multichip: ModuleType, tokens: int, published_s: float
) -> None:
    """LLM-Inference-Bench, figure 18; nothing in the prediction is fitted to these rows but half a launch."""
    case = multichip.Case("8 SN40L", "sn40l-8", "llama-3.1-8b", "end to end", tokens, tokens, 1, published_s)
    assert multichip.predicted_s(case, "measured") == pytest.approx(published_s, rel=0.12)


def test_a_step_reads_the_weights_and_more_sequences_take_longer(multichip: ModuleType) -> None:
    cost = multichip.machine("sn40l-8", "llama-3.1-8b", "own")
    one, sixteen = (multichip.executed_s(cost, multichip.step(cost, 1024, batch)) for batch in (1, 16))
    parameters = 8.03e9
    # At most the SRAM of the eight sockets holds weights between steps; the embedding is not read.
    least = (2 * (parameters - 128_256 * 4096) - 8 * 520e6) / (8 * 1.6e12 * 0.85)
    assert least < one < sixteen
    # 15 more sequences of 1,024 tokens: 128 KiB of keys and values a token.
    assert sixteen - one > 15 * 1024 * 131_072 / (8 * 1.6e12)


def test_the_page_holds_a_row_for_every_published_figure() -> None:
    lines = (ROOT / "docs" / "multichip.csv").read_text(encoding="utf-8").splitlines()
    assert sum(line.startswith("8 SN40L,") for line in lines) == 22
    assert sum("Wormhole," in line for line in lines) == 6
