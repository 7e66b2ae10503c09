"""Kubernetes quantities ("14000m", "1.5Gi", "1e3"), exact to the nano, in whole-number arithmetic.

What is read here is compared and shared out, so no float takes part. Text that Kubernetes would
refuse raises `NotAQuantity` with the reason and the mend; whose field it is, the caller knows.

Source: https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TypeAlias

from airflow_batchjob.core.errors import Problem

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


class NotAQuantity(ValueError):  # noqa: N818 - a ValueError with parts, which callers turn into a Problem
    """Not a quantity, or not one of the kind that is needed: `value`, why, and the mend."""

    def __init__(self, value: object, why: str, mend: str) -> None:
        self.value, self.why, self.mend = value, why, mend
        super().__init__(f"{value!r} is {why}; {mend[:1].lower()}{mend[1:]}")

    def at(self, field: str) -> Problem:
        """Return the problem of the field whose value it is."""
        return Problem(field, self.value, self.why, self.mend)


def parse_quantity(text: Quantity) -> Decimal:
    """Return the exact value of a quantity; what is finer than a nano is rounded away from zero.

    Args:
        text: In any notation of Kubernetes, or a JSON number.

    Raises:
        NotAQuantity: Kubernetes would refuse it; the message says why and what to write.
    """
    exact = nanos(text)
    if exact % _NANO == 0:
        return Decimal(exact // _NANO)
    digits = tuple(map(int, str(abs(exact))))
    return Decimal((int(exact < 0), digits, -9))  # unlike scaleb, never rounded to a context


def millicores(quantity: Quantity) -> int:
    """Return a CPU quantity in thousandths of a core, rounded up as Kubernetes does."""
    return -(-nanos(quantity) // _MILLI)


def memory_bytes(quantity: Quantity) -> int:
    """Return a memory quantity in bytes, rounded up to a whole byte."""
    return -(-nanos(quantity) // _NANO)


def mebibytes(quantity: Quantity) -> int:
    """Return a memory quantity in whole MiB, rounded down: what a machine surely has."""
    return nanos(quantity) // (_NANO * _MEBI)


def whole(quantity: Quantity) -> int:
    """Return a quantity of things that can't be divided, such as GPUs.

    Raises:
        NotAQuantity: It isn't a quantity, or not a whole number.
    """
    exact = nanos(quantity)
    if exact % _NANO:
        raise NotAQuantity(quantity, "not a whole number", "Write e.g. 1")
    return exact // _NANO


def format_cpu(millicores: int) -> str:
    """Write thousandths of a core: 12000 is "12000m"."""
    return f"{millicores}m"


def format_memory(mebibytes: int) -> str:
    """Write whole MiB: 95583 is "95583Mi"."""
    return f"{mebibytes}Mi"


def nanos(quantity: Quantity) -> int:
    """Return a quantity in thousand-millionths: the finest Kubernetes knows, so nothing is lost.

    Raises:
        NotAQuantity: As `parse_quantity`.
    """
    if isinstance(quantity, bool) or not isinstance(quantity, (str, int, float, Decimal)):
        raise NotAQuantity(quantity, "not a quantity", "Write a number, or text such as 500m or 2Gi")
    text = repr(quantity) if isinstance(quantity, float) else str(quantity)
    found = _QUANTITY.fullmatch(text) if len(text) <= _LONGEST_TEXT else None
    if found is None or not (found["whole"] or found["part"]):
        raise NotAQuantity(quantity, "not a quantity", _mend(text))
    sign, part = -1 if found["sign"] == "-" else 1, found["part"] or ""
    digits = int(found["whole"] + part)
    if found["exponent"] is not None:
        exponent = int(found["exponent"])
        if abs(exponent) > _LARGEST_EXPONENT:
            raise NotAQuantity(quantity, "out of range", "Write it without an exponent")
        return sign * _scaled_up(digits * _NANO, exponent - len(part))
    if found["suffix"] not in _SUFFIXES:
        why = f"not a quantity: there is no suffix {found['suffix']!r}"
        raise NotAQuantity(quantity, why, _mend(text))
    return sign * _scaled_up(digits * _SUFFIXES[found["suffix"]], -len(part))


def _scaled_up(number: int, exponent: int) -> int:
    # Who asks for anything at all gets something: Kubernetes rounds away from zero.
    if exponent >= 0:
        return number * int(10**exponent)
    return -(-number // int(10**-exponent))


def _mend(text: str) -> str:
    if re.search(r"\s", text):
        return "Write it without spaces, e.g. 1Gi"
    letter = text.lstrip("+-.0123456789")[:1].upper()
    if letter and letter in "KMGTPE":
        thousands = "k" if letter == "K" else letter
        return f"Write {thousands!r} for powers of 1000, or {letter + 'i'!r} for powers of 1024"
    return "Write a number and a suffix, e.g. 500m or 2Gi"
