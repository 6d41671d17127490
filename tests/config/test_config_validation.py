"""Faults of a validated document: every one, at its place, in the words of the file."""

from typing import Annotated, Literal

import pytest
from pydantic import Field, model_validator

from hydra_dse.config.faults import at_key
from hydra_dse.config.fields import (
    Bytes,
    BytesPerSecond,
    Flag,
    Name,
    Number,
    PositiveCount,
    Rate,
    Seconds,
    Section,
    Share,
)
from hydra_dse.config.loader import parse_yaml, validate
from hydra_dse.errors import InputError


class Square(Section):
    shape: Literal["square"]
    side: PositiveCount


class Circle(Section):
    shape: Literal["circle"]
    radius: Number
    circle: Seconds = 0.0


class Part(Section):
    name: Name
    size: Bytes = 1.0


class Thing(Section):
    name: Name
    bandwidth: BytesPerSecond
    mode: Literal["fast", "slow"] = "fast"
    share: Share = 0.5
    rate: Rate | None = None
    figure: Annotated[Square | Circle, Field(discriminator="shape")] | None = None
    parts: tuple[Part, ...] = ()
    delays: dict[str, Seconds] = Field(default_factory=dict)
    quiet: Flag = False

    @model_validator(mode="after")
    def _not_forbidden(self):
        if self.name == "forbidden":
            raise at_key("name", "may not be called 'forbidden'")
        return self


GOOD = "name: a\nbandwidth: 512 GB/s\n"


def faults(text):
    with pytest.raises(InputError) as caught:
        validate(parse_yaml(text, "f.yaml"), Thing)
    return [str(fault) for fault in caught.value.faults]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("name: a\n", "f.yaml:1:1: bandwidth: missing key 'bandwidth'"),
        (GOOD + "mod: slow\n", "f.yaml:3:1: mod: unknown key 'mod' (did you mean 'mode'?); accepted: name, bandwidth,"),
        (GOOD + "mode: fsat\n", "f.yaml:3:7: mode: 'fsat' is not accepted; expected 'fast' or 'slow' (did you mean"),
        ("name: a\nbandwidth: 512 GB\n", "f.yaml:2:12: bandwidth: '512 GB' is a size in bytes, but a bandwidth"),
        ("name: a\nbandwidth: 512\n", "f.yaml:2:12: bandwidth: 512 has no unit"),
        ("name: a\nbandwidth: -5 GB/s\n", "f.yaml:2:12: bandwidth: '-5 GB/s' is negative"),
        (GOOD + "share: 1.5\n", "f.yaml:3:8: share: must be at most 1, got 1.5"),
        (GOOD + "share: .nan\n", "f.yaml:3:8: share: nan is not a finite number"),
        (GOOD + "rate: 0 req/s\n", "f.yaml:3:7: rate: must be more than 0, got '0 req/s'"),
        (GOOD + "quiet: yes\n", "f.yaml:3:8: quiet: expected true or false, got 'yes'"),
        (GOOD + "name2: x\n", "f.yaml:3:1: name2: unknown key 'name2' (did you mean 'name'?)"),
        ("name: 3\nbandwidth: 1 GB/s\n", "f.yaml:1:7: name: expected text, got 3"),
        ("name: ''\nbandwidth: 1 GB/s\n", "f.yaml:1:7: name: "),
        (GOOD + "parts: {}\n", "f.yaml:3:8: parts: expected a list, got an empty mapping"),
        (GOOD + "parts: [{name: b, size: 3}]\n", "f.yaml:3:25: parts[0].size: 3 has no unit"),
        (GOOD + "parts: [{nam: b}]\n", "f.yaml:3:9: parts[0].name: missing key 'name'"),
        (GOOD + "delays: {x: 3 GB}\n", "f.yaml:3:13: delays.x: '3 GB' is a size in bytes, but a time is needed"),
        (GOOD + "figure: {shape: sqare, side: 1}\n", "f.yaml:3:17: figure.shape: 'sqare' is not accepted; expected"),
        (GOOD + "figure: {side: 1}\n", "f.yaml:3:9: figure.shape: missing key 'shape'; accepted: 'circle' or 'square'"),
        (GOOD + "figure: {shape: square, side: 1.5}\n", "f.yaml:3:31: figure.side: expected a whole number, got 1.5"),
        (GOOD + "figure: {shape: square, side: true}\n", "f.yaml:3:31: figure.side: expected a whole number, got True"),
        (
            GOOD + "figure: {shape: square, sid: 1}\n",
            "f.yaml:3:25: figure.sid: unknown key 'sid' (did you mean 'side'?)",
        ),
        (GOOD + "figure: {shape: circle, circle: 2}\n", "f.yaml:3:33: figure.circle: 2 has no unit"),
        (GOOD + "figure: 3\n", "f.yaml:3:9: figure: expected a mapping, got 3"),
        ("name: forbidden\nbandwidth: 1 GB/s\n", "f.yaml:1:7: name: may not be called 'forbidden'"),
    ],
)
def test_a_wrong_value_is_reported_at_its_line_and_column(text, expected):
    assert any(fault.startswith(expected) for fault in faults(text)), faults(text)


def test_all_faults_are_reported_at_once_in_the_order_of_the_file():
    found = faults("nam: a\nbandwidth: 3 s\nmode: x\nparts:\n- {size: 1}\n")
    places = [fault.split(": ")[0] for fault in found]
    assert places == ["f.yaml:1:1", "f.yaml:1:1", "f.yaml:2:12", "f.yaml:3:7", "f.yaml:5:3", "f.yaml:5:10"]


def test_a_good_document_gives_si_values():
    thing = validate(parse_yaml(GOOD + "delays: {a: 35 ns}\nrate: 30 /min\n"), Thing)
    assert (thing.bandwidth, thing.delays["a"], thing.rate) == (512e9, 35e-9, 0.5)


def test_a_section_dumps_to_text_that_reads_back_exactly():
    text = GOOD + "delays: {a: 0.1234567891 us}\nrate: 7 /h\nparts: [{name: x, size: 3 GiB}]\nshare: 33 %\n"
    thing = validate(parse_yaml(text), Thing)
    assert Thing.model_validate(thing.model_dump(mode="python")) == thing
    assert thing.model_dump()["bandwidth"] == "512 GB/s"


def test_an_unknown_key_hides_no_other_fault():
    assert len(faults(GOOD + "foo: 1\nmode: x\nshare: 2\n")) == 3
