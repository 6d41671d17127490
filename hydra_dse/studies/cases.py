"""A journal of finished cases: whatever stops a study, what was done is not done again.

One JSON object a line, appended and flushed when a case is finished; a kill leaves at most half a line, which is cut
off when the journal is opened again.  What a case is and what its record holds is the study's own; a case's key says
everything that its record depends on.

    journal = CaseJournal(folder / "cases.jsonl")
    record = journal.get(key)
    if record is None:
        journal.add(key, record := compute())
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hydra_dse.errors import Fault, InputError
from hydra_dse.studies.files import writing

Record = Mapping[str, Any]


class CaseJournal:
    """Finished cases by key, in memory and in a file.

    Raises:
        InputError: the file cannot be read or written, or holds a whole line that is no record.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._records: dict[str, Record] = {}
        self.resumed = 0
        if path.exists():
            self._read()

    def __len__(self) -> int:
        return len(self._records)

    def __contains__(self, key: str) -> bool:
        return key in self._records

    def get(self, key: str) -> Record | None:
        """The record of a finished case, None where it is not finished."""
        return self._records.get(key)

    def add(self, key: str, record: Record) -> None:
        """Keep the record of a case; floats read back to the same bits, NaN and infinity included."""
        with writing(self._path), self._path.open("ab") as stream:
            stream.write((json.dumps({"case": key, "record": record}) + "\n").encode())
        self._records[key] = record

    def _read(self) -> None:
        with writing(self._path):
            data = self._path.read_bytes()
        whole = data.rfind(b"\n") + 1
        for number, line in enumerate(data[:whole].splitlines(), start=1):
            try:
                entry = json.loads(line)
                self._records[entry["case"]] = entry["record"]
            except (ValueError, KeyError, TypeError) as error:
                message = "is not a record of a finished case; the run directory is corrupt"
                raise InputError(Fault(message, file=str(self._path), line=number)) from error
        self.resumed = len(self._records)
        if whole < len(data):
            with writing(self._path), self._path.open("r+b") as stream:
                stream.truncate(whole)


def case_key(*parts: object) -> str:
    """A key of 32 hexadecimal digits for parts whose text says all that a case depends on."""
    return hashlib.sha256("\x1f".join(str(part) for part in parts).encode()).hexdigest()[:32]
