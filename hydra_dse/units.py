"""Quantities with units: text such as `"512 GB/s"` to SI floats and back.

GB is 1e9 bytes and GiB is 2^30.  A number without its unit is refused, except for counts and shares: a file
that says `bandwidth: 512` would be read by its author in one unit and by us in another.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from hydra_dse.errors import UnitError, did_you_mean, one_of

_NUMBER = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*(.*?)\s*", re.DOTALL)
_DECIMAL = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50}
_SMALL = {"f": 1e-15, "p": 1e-12, "n": 1e-9, "u": 1e-6, "µ": 1e-6, "μ": 1e-6, "m": 1e-3}


@dataclass(frozen=True)
class Dimension:
    """A kind of quantity.

    Attributes:
        name: key in `DIMENSIONS`.
        meaning: words for messages.
        units: factor to SI by unit.
        shown: units used for printing, largest first; also the ones that messages name.
        bare: whether a number without a unit is accepted.
    """

    name: str
    meaning: str
    units: dict[str, float]
    shown: tuple[str, ...]
    bare: bool = False


def _prefixed(prefixes: dict[str, float], stems: tuple[str, ...], scale: float = 1.0) -> dict[str, float]:
    return {prefix + stem: factor * scale for stem in stems for prefix, factor in prefixes.items()}


_BYTES = _prefixed(_DECIMAL | _BINARY, ("B",))
_BITS = _prefixed(_DECIMAL, ("bit",), 1 / 8)
_BYTES_PER_S = {
    **{f"{unit}/s": factor for unit, factor in (_BYTES | _BITS).items()},
    **{f"{prefix}bps": factor / 8 for prefix, factor in _DECIMAL.items()},
}
_ENERGIES = _prefixed(_SMALL | {"": 1.0, "k": 1e3, "M": 1e6}, ("J",))
_SECONDS = _prefixed({key: value for key, value in _SMALL.items() if key != "f"} | {"": 1.0}, ("s",)) | {
    "min": 60.0,
    "h": 3600.0,
    "d": 86400.0,
}
_PERIODS = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_RATES = {
    f"{noun}/{period}": 1 / seconds
    for noun in ("", "1", "req", "request", "requests")
    for period, seconds in _PERIODS.items()
}
_FLOPS = _prefixed(_DECIMAL, ("FLOP/s", "FLOPS", "FLOPs/s", "OP/s", "OPS"))
_LENGTHS = {"mm": 1.0, "um": 1e-3, "µm": 1e-3, "μm": 1e-3, "nm": 1e-6, "cm": 10.0}
_AREAS = {"mm2": 1.0, "mm²": 1.0, "mm^2": 1.0, "cm2": 100.0, "cm²": 100.0, "um2": 1e-6, "µm²": 1e-6, "um²": 1e-6}

_ALL = (
    Dimension("bytes", "a size in bytes", _BYTES, ("TB", "GB", "MB", "kB", "B")),
    Dimension("bytes_per_s", "a bandwidth", _BYTES_PER_S, ("TB/s", "GB/s", "MB/s", "kB/s", "B/s")),
    Dimension("seconds", "a time", _SECONDS, ("h", "min", "s", "ms", "us", "ns")),
    Dimension("hertz", "a frequency", _prefixed(_DECIMAL, ("Hz",)), ("GHz", "MHz", "kHz", "Hz")),
    Dimension("flops_per_s", "a compute rate", _FLOPS, ("PFLOP/s", "TFLOP/s", "GFLOP/s", "FLOP/s")),
    Dimension(
        "joules_per_byte",
        "an energy per byte",
        {
            **{f"{unit}/{byte}": factor for unit, factor in _ENERGIES.items() for byte in ("B", "byte")},
            **{f"{unit}/bit": factor * 8 for unit, factor in _ENERGIES.items()},
        },
        ("J/B", "nJ/B", "pJ/B", "pJ/bit"),
    ),
    Dimension(
        "joules_per_flop",
        "an energy per operation",
        {f"{unit}/{op}": factor for unit, factor in _ENERGIES.items() for op in ("FLOP", "OP")},
        ("J/FLOP", "nJ/FLOP", "pJ/FLOP", "fJ/FLOP"),
    ),
    Dimension("joules", "an energy", _ENERGIES, ("kJ", "J", "mJ", "uJ", "nJ", "pJ")),
    Dimension("watts", "a power", _prefixed({"": 1.0, "m": 1e-3, "k": 1e3, "u": 1e-6}, ("W",)), ("kW", "W", "mW")),
    Dimension("mm", "a length", _LENGTHS, ("mm", "um")),
    Dimension("mm2", "an area", _AREAS, ("mm2",)),
    Dimension("rate", "a rate of requests", _RATES | {"rps": 1.0}, ("req/s", "req/min", "req/h")),
    Dimension(
        "bytes_per_s_per_mm",
        "a bandwidth per die edge",
        {f"{unit}/mm": factor for unit, factor in _BYTES_PER_S.items()},
        ("TB/s/mm", "GB/s/mm", "MB/s/mm", "B/s/mm"),
    ),
    Dimension(
        "bytes_per_s_per_mm2",
        "a bandwidth per silicon area",
        {f"{unit}/{area}": factor for unit, factor in _BYTES_PER_S.items() for area in ("mm2", "mm²", "mm^2")},
        ("TB/s/mm2", "GB/s/mm2", "MB/s/mm2", "B/s/mm2"),
    ),
    Dimension("usd", "an amount of money", {"USD": 1.0, "$": 1.0, "kUSD": 1e3}, ("USD",)),
    Dimension("share", "a share", {"%": 0.01}, ("%",), bare=True),
    Dimension("count", "a count", {}, (), bare=True),
)
DIMENSIONS: dict[str, Dimension] = {dimension.name: dimension for dimension in _ALL}


def parse(value: str | float | int, dimension: str) -> float:
    """Return `value` in SI units (bytes, s, Hz, FLOP/s, J, W; lengths in mm, areas in mm²).

    Args:
        value: text with a unit (`"64 GiB"`, `"35 ns"`, `"2 req/s"`), or a number for counts and shares.
        dimension: a key of `DIMENSIONS`.

    Raises:
        UnitError: no number, no unit, an unknown unit, another dimension's unit, negative, NaN or infinite.
    """
    wanted = DIMENSIONS[dimension]
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise UnitError(f"{value!r} is not {wanted.meaning}; {_accepted(wanted)}")
    if isinstance(value, str):
        number, unit = _split(value, wanted)
    else:
        number, unit = _finite(value, value), ""
    factor = _factor(value, unit, wanted)
    # Dividing by an exact power of ten rounds once where multiplying by its inverse rounds twice: 35 ns is 3.5e-08.
    result = number * factor if factor >= 1 else number / _inverse(factor)
    if result < 0:
        raise UnitError(f"{value!r} is negative; {wanted.meaning} must be zero or more")
    return _finite(result, value) + 0.0


def format(value: float, dimension: str, digits: int = 4) -> str:  # noqa: A001 - reads as units.format(...)
    """Return `value` (SI) as text in the unit that suits its size, e.g. `"512 GB/s"`."""
    wanted = DIMENSIONS[dimension]
    if not wanted.shown:
        return f"{value:.{digits}g}"
    for unit in wanted.shown:
        scaled = value / wanted.units[unit]
        if abs(scaled) >= 1 or (unit == wanted.shown[-1]):
            break
    if value == 0:
        unit, scaled = next((unit for unit in wanted.shown if wanted.units[unit] == 1), wanted.shown[-1]), 0.0
    return f"{scaled:.{digits}g} {unit}"


def exact(value: float, dimension: str) -> str | float:
    """Return text that `parse` turns back into exactly `value`: short where the short form is exact."""
    if DIMENSIONS[dimension].bare:
        return value
    short = format(value, dimension, digits=6)
    if parse(short, dimension) == value:
        return short
    base = next(unit for unit, factor in DIMENSIONS[dimension].units.items() if factor == 1)
    return f"{value!r} {base}"


def _inverse(factor: float) -> float:
    whole = round(1 / factor)
    return float(whole) if math.isclose(whole * factor, 1.0, rel_tol=1e-12) else 1 / factor


def _finite(number: float | int, written: object) -> float:
    try:
        result = float(number)
    except OverflowError:
        result = math.inf
    if not math.isfinite(result):
        raise UnitError(f"{written!r} is not a finite number")
    return result


def _split(text: str, wanted: Dimension) -> tuple[float, str]:
    match = _NUMBER.fullmatch(text)
    if match is None and text.strip().startswith("$"):
        match = _NUMBER.fullmatch(text.strip().removeprefix("$") + " $")
    if match is None:
        if text.strip().lower().lstrip("+-.").startswith(("inf", "nan")):
            raise UnitError(f"{text!r} is not a finite number")
        raise UnitError(f"{text!r} is not {wanted.meaning}; {_accepted(wanted)}")
    return _finite(float(match[1]), text), match[2]


def _factor(written: object, unit: str, wanted: Dimension) -> float:
    if unit in wanted.units:
        return wanted.units[unit]
    if not unit:
        if wanted.bare:
            return 1.0
        raise UnitError(f"{written!r} has no unit; {_accepted(wanted)}")
    for other in DIMENSIONS.values():
        if unit in other.units:
            raise UnitError(f"{written!r} is {other.meaning}, but {wanted.meaning} is needed; {_accepted(wanted)}")
    hint = _same_letters(unit, wanted) or did_you_mean(unit, wanted.units)
    raise UnitError(f"{written!r} has an unknown unit {unit!r}{hint}; {_accepted(wanted)}")


def _same_letters(unit: str, wanted: Dimension) -> str:
    close = [known for known in wanted.units if known.lower() == unit.lower()]
    return f" (did you mean {close[0]!r}?)" if close else ""


def _accepted(wanted: Dimension) -> str:
    if not wanted.units:
        return "write a plain number of zero or more"
    units = f"write a number with {one_of(wanted.shown)}"
    return f"write a plain number or {units[6:]}" if wanted.bare else units
