"""`mapping.memories`: memory groups of each pool, refused in one line where they make no sense."""

from __future__ import annotations

from pathlib import Path

import pytest

from hydra_dse.config import load_design
from hydra_dse.errors import InputError

SHIPPED = Path(__file__).resolve().parents[2] / "search_spaces" / "designs" / "split-24-nemotron-chat.yaml"


def test_groups_of_each_pool_are_read() -> None:
    assert load_design(SHIPPED).mapping.memories == {"prefill": ("HBMp",), "decode": ("HBMd",)}


@pytest.mark.parametrize(
    ("stated", "text"),
    [
        ("{prefill: [HBMp]}", "pool 'decode' has none"),
        ("{prefill: [HBMp], decode: [HBMp]}", "'HBMp' belongs to both pools"),
        ("{prefill: [HBMp], decode: [HBMx]}", "no memory group called 'HBMx'.*did you mean 'HBM[pd]'"),
        (
            "{prefill: [HBMp], decode: [HBMd]}\n  pipeline: 2",
            "memories of each pool need parallelism: tensor or replica",
        ),
    ],
)
def test_a_wrong_choice_is_named(tmp_path: Path, stated: str, text: str) -> None:
    file = tmp_path / "design.yaml"
    file.write_text(SHIPPED.read_text().replace("{prefill: [HBMp], decode: [HBMd]}", stated))
    with pytest.raises(InputError, match=text):
        load_design(file)
