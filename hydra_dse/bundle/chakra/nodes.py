"""Nodes of a Chakra graph and their bytes.

The format is that of MLCommons Chakra (arXiv 2305.14516): protocol buffers by `schema/protobuf/et_def.proto` of
mlcommons/chakra, each message behind its length as a varint, a `GlobalMetadata` first.  Field numbers used here:
`GlobalMetadata` version 1; `Node` id 1, name 2, type 3, ctrl_deps 4, data_deps 5, start_time_micros 6,
duration_micros 7, attr 10; `AttributeProto` name 1, int32_val 7, int64_val 9, uint64_val 13, bool_val 27,
string_val 29.  They need no code but this.  The attributes and their types are those that Chakra's feeder for
simulators reads (`src/feeder/et_feeder_node.cpp`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

VERSION = "0.0.4"
_VARINT, _BYTES = 0, 2


class NodeKind(IntEnum):
    """`NodeType` of the schema."""

    MEM_LOAD = 2
    MEM_STORE = 3
    COMP = 4
    COMM_SEND = 5
    COMM_RECV = 6
    COMM_COLL = 7


class Collective(IntEnum):
    """`CollectiveCommType` of the schema."""

    ALL_GATHER = 2
    ALL_TO_ALL = 6
    REDUCE_SCATTER = 7


class AttributeType(IntEnum):
    """Field numbers of the values of an attribute."""

    INT32 = 7
    INT64 = 9
    UINT64 = 13
    BOOL = 27
    STRING = 29


TYPES = {
    "is_cpu_op": AttributeType.BOOL,
    "num_ops": AttributeType.INT64,
    "tensor_size": AttributeType.UINT64,
    "comm_type": AttributeType.INT64,
    "comm_size": AttributeType.INT64,
    "comm_src": AttributeType.INT32,
    "comm_dst": AttributeType.INT32,
    "comm_tag": AttributeType.INT32,
    "pg_name": AttributeType.STRING,
    "duration_ns": AttributeType.UINT64,
    "iteration": AttributeType.INT64,
}
"""Attributes that are written; the last two are ours and are skipped by others."""


@dataclass(frozen=True)
class Node:
    """A node of the graph of one rank.

    Attributes:
        identity: from 1, in an order in which every node comes after those it depends on.
        start_us, duration_us: whole microseconds; `duration_ns` among the attributes is exact.
        waits: nodes that must have ended (control); needs: nodes whose data it uses.
        attributes: by name, see `TYPES`.
    """

    identity: int
    name: str
    kind: NodeKind
    start_us: int
    duration_us: int
    waits: tuple[int, ...]
    needs: tuple[int, ...]
    attributes: dict[str, int | str]

    def encoded(self) -> bytes:
        """The message, with its length before it."""
        parts = [
            _number(1, self.identity),
            _text(2, self.name.encode()),
            _number(3, self.kind),
            *(_packed(field, values) for field, values in ((4, self.waits), (5, self.needs)) if values),
            _number(6, self.start_us),
            _number(7, self.duration_us),
            *(_text(10, _attribute(name, value)) for name, value in self.attributes.items()),
        ]
        return _delimited(b"".join(parts))


def header() -> bytes:
    """The message at the start of a file."""
    return _delimited(_text(1, VERSION.encode()))


def _attribute(name: str, value: int | str) -> bytes:
    field = TYPES[name]
    content = _text(field, str(value).encode()) if field == AttributeType.STRING else _number(field, int(value))
    return _text(1, name.encode()) + content


def _varint(value: int) -> bytes:
    """Seven bits a byte, the lowest first; the highest bit says that more follow.  Values are not negative."""
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3 | _VARINT) + _varint(value)


def _text(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | _BYTES) + _delimited(content)


def _packed(field: int, values: Iterable[int]) -> bytes:
    return _text(field, b"".join(map(_varint, values)))


def _delimited(content: bytes) -> bytes:
    return _varint(len(content)) + content
