"""Libraries that are loaded at their first use: the same module, whichever way it is asked for first."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

from hydra_dse.cli.deferred import import_on_use


def printed(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.strip()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    package = tmp_path / "late_package"
    package.mkdir()
    (package / "__init__.py").write_text("import late_package.part\nloads = part.loads = part.loads + 1\n")
    (package / "part.py").write_text("loads = 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    for name in ("late_package", "late_package.part"):
        sys.modules.pop(name, None)


def test_an_import_alone_loads_nothing_and_the_first_use_loads_once(folder):
    import_on_use("late_package")
    import late_package

    assert "late_package.part" not in sys.modules
    assert (late_package.loads, late_package.loads) == (1, 1)
    assert late_package is sys.modules["late_package"]
    assert late_package.part.loads == 1


def test_a_submodule_is_loaded_after_its_package(folder):
    import_on_use("late_package")
    import late_package.part

    assert late_package.part.loads == 1
    assert late_package.part.__spec__.origin.endswith("part.py")
    assert importlib.reload(late_package.part).loads == 0


def test_what_the_package_lacks_is_an_attribute_error_and_what_is_not_installed_an_import_error(folder):
    import_on_use("late_package")
    import_on_use("no_such_package")
    import late_package

    with pytest.raises(AttributeError, match="absent"):
        _ = late_package.absent
    with pytest.raises(ImportError):
        import no_such_package  # noqa: F401


def test_a_package_that_is_loaded_already_stays_as_it_is():
    before = sys.modules["pytest"]
    import_on_use("pytest")
    assert sys.modules["pytest"] is before


def test_arrays_and_what_is_built_on_them_work_after_a_late_load():
    code = (
        "from hydra_dse.cli.deferred import import_on_use; import_on_use('numpy'); import numpy as np, sys\n"
        "early = 'numpy._core' in sys.modules\n"
        "from numpy.typing import NDArray\n"
        "import scipy.special\n"
        "print(early, np.linalg.norm(np.array([3.0, 4.0])), scipy.special.expit(np.zeros(1)))"
    )
    assert printed(code) == "False 5.0 [0.5]"


def test_a_compiled_part_is_loaded_once_even_where_it_is_asked_for_first():
    code = (
        "from hydra_dse.cli.deferred import import_on_use; import_on_use('numpy')\n"
        "import numpy.linalg._umath_linalg as compiled, numpy as np\n"
        "print(np.linalg._linalg._umath_linalg is compiled, float(np.linalg.det(np.eye(2))))"
    )
    assert printed(code) == "True 1.0"
