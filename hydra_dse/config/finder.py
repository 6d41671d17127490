"""Where input files are: a path that exists wins, else the bundled data of that name."""

from __future__ import annotations

from pathlib import Path

from hydra_dse.config.document import Document, KeyPath
from hydra_dse.errors import Fault, InputError, did_you_mean

# Kind → folder below the data root, and the suffixes of its files.
_KINDS: dict[str, tuple[str, tuple[str, ...]]] = {
    "models": ("workloads/models", (".json", ".yaml")),
    "workloads": ("workloads", (".yaml",)),
    "lengths": ("workloads/lengths", (".yaml",)),
    "spaces": ("search_spaces", (".yaml",)),
    "designs": ("search_spaces/designs", (".yaml",)),
    "experiments": ("experiments", (".yaml",)),
}
_LIBRARY = ("chiplets", "memories", "links", "calibrations", "technologies")
_SUFFIXES = (".yaml", ".yml", ".json", ".csv", ".jsonl", ".gz")


def data_root() -> Path:
    """The folder that holds the bundled data: inside an installed package, else the checkout around it."""
    package = Path(__file__).resolve().parents[1]
    inside = package / "_data"
    if inside.is_dir():
        return inside
    if (package.parent / "pyproject.toml").is_file():
        return package.parent
    raise InputError(Fault(f"bundled data not found: neither {inside} nor a checkout around {package}"))


def _folder(kind: str) -> Path:
    if kind not in _KINDS:
        kinds = (*_KINDS, *_LIBRARY)
        raise InputError(Fault(f"unknown kind {kind!r}{did_you_mean(kind, kinds)}; accepted: {', '.join(kinds)}"))
    return data_root() / _KINDS[kind][0]


def bundled(kind: str) -> tuple[str, ...]:
    """Names of the bundled files of a kind, sorted; of the hardware library in its own order."""
    if kind in _LIBRARY:
        from hydra_dse.config.library import library_names  # imported late: YAML is not needed to start

        return library_names(kind)
    folder, suffixes = _folder(kind), _KINDS[kind][1]
    if not folder.is_dir():
        return ()
    names = {entry.stem for entry in folder.iterdir() if entry.suffix in suffixes and not entry.name.startswith("_")}
    return tuple(sorted(names))


def find(kind: str, ref: str | Path) -> Path:
    """The file that `ref` means: an existing path, else a bundled name of that kind.

    Raises:
        InputError: neither exists.
    """
    path = Path(ref)
    if _exists(path):
        return path
    named = _bundled_file(kind, str(ref))
    if named is not None:
        return named
    noun = kind.removesuffix("s")
    if looks_like_path(str(ref)) or _special(path):
        raise InputError(Fault(_why_not(path), str(ref)))
    known = bundled(kind)
    listed = f"; bundled: {', '.join(known)}" if known else ""
    raise InputError(
        Fault(f"no {noun} file or bundled {noun} called {str(ref)!r}{did_you_mean(str(ref), known)}{listed}")
    )


def find_from(document: Document, path: KeyPath, kind: str) -> Path:
    """The file that the text at a key path means: relative to the document and below its folder, or a bundled name.

    A value set on the command line is relative to the working directory and may lie anywhere.

    Raises:
        InputError: nothing of that name, or a path that leaves the folder.
    """
    ref = str(document.get(path))
    try:
        if document.override_of(path) is not None:
            return find(kind, ref)
        if looks_like_path(ref) or (document.folder is not None and _exists(document.folder / ref)):
            return path_below(document, path)
        return find_bundled(kind, ref)
    except InputError as error:
        if any(fault.path for fault in error.faults):
            raise
        message = "; ".join(_with_file(fault) for fault in error.faults)
        raise InputError(document.fault(path, message)) from None


def _with_file(fault: Fault) -> str:
    return f"{fault.file}: {fault.message}" if fault.file else fault.message


def find_bundled(kind: str, ref: str) -> Path:
    """The bundled file of that name, whatever lies in the working directory."""
    named = _bundled_file(kind, ref)
    if named is not None:
        return named
    known = bundled(kind)
    listed = f"; bundled: {', '.join(known)}" if known else ""
    raise InputError(Fault(f"no bundled {kind.removesuffix('s')} called {ref!r}{did_you_mean(ref, known)}{listed}"))


def path_below(document: Document, path: KeyPath) -> Path:
    """The path written at a key, resolved; the file or folder must exist below the document's folder.

    Raises:
        InputError: no such file, or it leaves the folder (symbolic links are followed first).
    """
    text = str(document.get(path))
    if document.override_of(path) is not None or text in document.trusted:
        target = Path(text)
    else:
        folder = (document.folder or Path()).resolve()
        target = folder / text
        if "\x00" in text or not target.resolve().is_relative_to(folder):
            message = f"{text!r} leaves the folder of the file; name a path below it, or give the path with --set"
            raise InputError(document.fault(path, message))
    if not (_exists(target) or target.is_dir()):
        raise InputError(document.fault(path, f"{text!r}: {_why_not(target)}"))
    return target.resolve()


def looks_like_path(ref: str) -> bool:
    """Whether a reference is written as a path rather than a name."""
    return "/" in ref or "\\" in ref or ref.endswith(_SUFFIXES)


def _bundled_file(kind: str, name: str) -> Path | None:
    if looks_like_path(name) or name not in bundled(kind):
        return None
    return next(path for suffix in _KINDS[kind][1] if (path := _folder(kind) / f"{name}{suffix}").is_file())


def _exists(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def _special(path: Path) -> bool:
    """Whether a path is there and is neither a file nor a folder: a device, a pipe."""
    try:
        return path.exists() and not path.is_file() and not path.is_dir()
    except (OSError, ValueError):
        return False


def _why_not(path: Path) -> str:
    try:
        if path.is_dir():
            return "is a folder; expected a file"
    except (OSError, ValueError):
        return "no such file"
    return "is not a regular file" if _special(path) else "no such file"
