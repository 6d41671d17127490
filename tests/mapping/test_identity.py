from __future__ import annotations

from dataclasses import replace

from hydra_dse.design.nouns import MappingChoice
from hydra_dse.mapping import components_key, mapping_key, package_key, speed_of, token
from hydra_dse.model.operators import OperatorClass
from tests.mapping.pieces import chiplet, two_of_each


def test_equal_nouns_share_a_number_and_different_ones_do_not() -> None:
    assert token(chiplet()) == token(chiplet())
    assert token(chiplet()) != token(chiplet(sram_bytes=1.0))


def test_numbers_are_never_issued_twice() -> None:
    seen = {token(chiplet(sram_bytes=float(size))) for size in range(9000)}
    assert len(seen) == 9000


def test_a_package_is_known_by_what_models_read_not_by_its_name() -> None:
    on = two_of_each()
    assert package_key(on) == package_key(replace(on, name="other"))
    wider = replace(on, link_bandwidth_bytes_per_s=1e12)
    assert package_key(on) != package_key(wider)
    assert components_key(on) == components_key(wider)


def test_a_mapping_choice_is_known_whatever_the_order_of_its_groups() -> None:
    one = MappingChoice(groups={OperatorClass.MLP: ("A",), OperatorClass.NORM: ("B",)})
    two = MappingChoice(groups={OperatorClass.NORM: ("B",), OperatorClass.MLP: ("A",)})
    assert mapping_key(one) == mapping_key(two)
    assert mapping_key(one) != mapping_key(MappingChoice())


def test_fp16_runs_like_bf16_and_unknown_formats_not_at_all() -> None:
    die = chiplet(format_speed=(("fp8", 2.0),))
    assert [speed_of(die, name) for name in ("bf16", "fp16", "fp8", "fp4")] == [1.0, 1.0, 2.0, None]
