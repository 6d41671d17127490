"""Libraries that a command seldom needs, loaded when an attribute of theirs is first used."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


class _Deferred(ModuleType):
    """A package that fills itself when it is asked for what it lacks.

    `importlib.util.LazyLoader` does not serve here: its modules are filled by the next `import` of their name.
    """

    def __getattr__(self, name: str) -> Any:
        spec = self.__spec__
        if spec is None or spec.loader is None:
            raise AttributeError(name)
        # First, for a package looks at itself while it is loaded.
        self.__class__ = ModuleType  # type: ignore[assignment]
        self.__path__ = spec.submodule_search_locations or []
        spec.loader.exec_module(self)
        return getattr(self, name)


class _LoadedMeanwhile:
    """Finds a submodule that its package loaded just now: `import package.part` asks for the package only then.

    Without it Python would load such a submodule once more.
    """

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """What is loaded already; anything else is left to other finders, and so are reloads (with a `target`)."""
        return ModuleSpec(name, self) if target is None and name in sys.modules else None  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The module as it is."""
        module = sys.modules[spec.name]
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Nothing is left to do but to keep its own spec."""
        module.__spec__ = module.__spec__ and module.__spec__.loader_state


def import_on_use(package: str) -> None:
    """Let `import package` bind a module that is loaded when one of its attributes or submodules is first used.

    A check of a file makes arrays only where it reads recorded lengths or traces, but the nouns that it reads belong
    to modules that can make them.  For commands of one thread: two threads that use the package first, both at once,
    would load it twice.
    """
    spec = None if package in sys.modules else importlib.util.find_spec(package)
    if spec is None or spec.submodule_search_locations is None:
        return
    module = importlib.util.module_from_spec(spec)
    del module.__path__  # a submodule cannot be found, and so not be imported, before its package is loaded
    module.__class__ = _Deferred
    sys.modules[package] = module
    if not any(isinstance(finder, _LoadedMeanwhile) for finder in sys.meta_path):
        sys.meta_path.insert(0, _LoadedMeanwhile())
