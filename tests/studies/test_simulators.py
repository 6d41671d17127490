from __future__ import annotations

import sys
from importlib.metadata import EntryPoint

import pytest

from hydra_dse import extensions
from hydra_dse.errors import InputError
from hydra_dse.studies import simulators
from hydra_dse.studies.simulators import find_simulator


class Stranger:
    def evaluate(self, *arguments):
        return []


class Mute:
    pass


def _registered(monkeypatch, **points):
    found = [EntryPoint(name, value, extensions.SIMULATORS) for name, value in points.items()]
    monkeypatch.setattr(simulators, "entry_points", lambda group: found)


def test_our_simulator_is_found_by_its_entry_point():
    assert callable(find_simulator("serving").evaluate)


def test_a_strangers_simulator_takes_the_same_path(monkeypatch):
    _registered(monkeypatch, theirs=f"{__name__}:Stranger")
    assert isinstance(find_simulator("theirs"), Stranger)


def test_an_unknown_simulator_is_refused_with_a_suggestion():
    with pytest.raises(InputError, match=r"no simulator 'servin' \(did you mean 'serving'\?\)"):
        find_simulator("servin")


def test_no_simulator_at_all_says_how_to_get_one(monkeypatch):
    _registered(monkeypatch)
    with pytest.raises(InputError, match="none is installed"):
        find_simulator("serving")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("no_such_module:X", "cannot be loaded: No module named 'no_such_module'"),
        (f"{__name__}:Absent", "cannot be loaded"),
        (f"{__name__}:Mute", "has no method 'evaluate'"),
    ],
)
def test_a_simulator_that_does_not_work_is_named(monkeypatch, value, message):
    _registered(monkeypatch, broken=value)
    with pytest.raises(InputError, match=rf"simulator 'broken' \({value}\).*{message}"):
        find_simulator("broken")


def test_a_foreign_package_that_hides_ours_is_named_in_one_message(monkeypatch, tmp_path):
    (tmp_path / "simulators").mkdir()
    (tmp_path / "simulators" / "__init__.py").write_text("")
    for name in [name for name in sys.modules if name.split(".")[0] == "simulators"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InputError) as caught:
        find_simulator("serving")
    assert len(caught.value.faults) == 1
    assert str(tmp_path / "simulators") in str(caught.value)
    assert "is not the one of hydra-dse" in str(caught.value)
