"""Kubernetes quantities ("14000m", "1.5Gi", "1e3"), exact to the nano, in whole-number arithmetic.

What is read here is compared and shared out, so no float takes part. Text that Kubernetes would
refuse raises `ValueError` with the reason and the mend; whose field it is, the caller knows.

Source: https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TypeAlias

Quantity: TypeAlias = str | int | float | Decimal
"""A quantity as YAML gives it; JSON numbers are legal."""

_NANO = 10**9
_MILLI = 10**6
_MEBI = 2**20

# "E" is exa when it stands alone and an exponent when digits follow.
_QUANTITY = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<part>[0-9]*))?"
    r"(?:[eE](?P<exponent>[+-]?[0-9]+)|(?P<suffix>[A-Za-z]*))"
)
_LONGEST_TEXT = 400
_LARGEST_EXPONENT = 300  # beyond any machine, and small enough to stay cheap

# Each suffix as nanos per unit.
_SUFFIXES = {
    "n": 1,
    "u": 10**3,
    "m": 10**6,
    **{suffix: _NANO * 1000**power for power, suffix in enumerate(("", "k", "M", "G", "T", "P", "E"))},
    **{f"{suffix}i": _NANO * 1024**power for power, suffix in enumerate("KMGTPE", start=1)},
}


def parse_quantity(text: Quantity) -> Decimal:
    """Return the exact value of a quantity; what is finer than a nano is rounded away from zero.

    Args:
        text: In any notation of Kubernetes, or a JSON number.

    Raises:
        ValueError: Kubernetes would refuse it; the message says why and what to write.
    """
    nanos = _nanos(text)
    if nanos % _NANO == 0:
        return Decimal(nanos // _NANO)
    digits = tuple(map(int, str(abs(nanos))))
    return Decimal((int(nanos < 0), digits, -9))  # unlike scaleb, never rounded to a context


def millicores(quantity: Quantity) -> int:
    """Return a CPU quantity in thousandths of a core, rounded up as Kubernetes does."""
    return -(-_nanos(quantity) // _MILLI)


def memory_bytes(quantity: Quantity) -> int:
    """Return a memory quantity in bytes, rounded up to a whole byte."""
    return -(-_nanos(quantity) // _NANO)


def mebibytes(quantity: Quantity) -> int:
    """Return a memory quantity in whole MiB, rounded down: what a machine surely has."""
    return _nanos(quantity) // (_NANO * _MEBI)


def whole(quantity: Quantity) -> int:
    """Return a quantity of things that can't be divided, such as GPUs.

    Raises:
        ValueError: It isn't a quantity, or not a whole number.
    """
    nanos = _nanos(quantity)
    if nanos % _NANO:
        raise ValueError(f"{quantity!r} is not a whole number; write e.g. 1")
    return nanos // _NANO


def format_cpu(millicores: int) -> str:
    """Write thousandths of a core: 12000 is "12000m"."""
    return f"{millicores}m"


def format_memory(mebibytes: int) -> str:
    """Write whole MiB: 95583 is "95583Mi"."""
    return f"{mebibytes}Mi"


def _nanos(quantity: Quantity) -> int:
    if isinstance(quantity, bool) or not isinstance(quantity, (str, int, float, Decimal)):
        why = f"{quantity!r} is not a quantity; write a number or text such as '500m' or '2Gi'"
        raise ValueError(why)  # noqa: TRY004 - callers turn one kind of error into a Problem
    text = repr(quantity) if isinstance(quantity, float) else str(quantity)
    found = _QUANTITY.fullmatch(text) if len(text) <= _LONGEST_TEXT else None
    if found is None or not (found["whole"] or found["part"]):
        raise ValueError(f"{quantity!r} is not a quantity; {_mend(text)}")
    sign, part = -1 if found["sign"] == "-" else 1, found["part"] or ""
    digits = int(found["whole"] + part)
    if found["exponent"] is not None:
        exponent = int(found["exponent"])
        if abs(exponent) > _LARGEST_EXPONENT:
            raise ValueError(f"{quantity!r} is out of range; write it without an exponent")
        return sign * _scaled_up(digits * _NANO, exponent - len(part))
    if found["suffix"] not in _SUFFIXES:
        raise ValueError(f"{quantity!r} has the unknown suffix {found['suffix']!r}; {_mend(text)}")
    return sign * _scaled_up(digits * _SUFFIXES[found["suffix"]], -len(part))


def _scaled_up(number: int, exponent: int) -> int:
    # Who asks for anything at all gets something: Kubernetes rounds away from zero.
    if exponent >= 0:
        return number * int(10**exponent)
    return -(-number // int(10**-exponent))


def _mend(text: str) -> str:
    if text != text.strip() or " " in text:
        return "write it without spaces, e.g. '1Gi'"
    letters = text.lstrip("+-.0123456789")
    likely = {"k": "'k' (1000) or 'Ki' (1024)", "m": "'M', 'Mi' or, for thousandths, 'm'"}
    first = letters[:1].lower()
    if first in "gtpe" and first:
        return f"write {first.upper()!r} (powers of 1000) or {first.upper() + 'i'!r} (powers of 1024)"
    return f"write {likely.get(first, 'a number and a suffix, e.g. 500m or 2Gi')}"
