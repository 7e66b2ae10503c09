"""Quantities in the one form Kubernetes stores them: 0.5 → 500m, 1024Mi → 1Gi."""

from __future__ import annotations

import re
from decimal import ROUND_UP, Context, Decimal, InvalidOperation

SYNTAX = r"^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$"
_NUMBER = re.compile(r"(?P<number>[+-]?(\d+\.?\d*|\.\d+))(?P<suffix>[eE][-+]?\d+|[A-Za-z]*)")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_DECIMAL_SUFFIX = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_EXACT = Context(prec=60)
_NANO = Decimal("1e-9")


def canonical(value: str | int | float) -> str:
    """Return a quantity as the API server stores it.

    Raises:
        ValueError: It is no quantity; the text is Kubernetes' own.
    """
    number, suffix = _split(str(value))
    if suffix in _BINARY[1:]:
        exact = _EXACT.multiply(number, Decimal(1024 ** _BINARY.index(suffix)))
        if abs(exact) >= 1024:
            return _binary(int(exact.to_integral_value(ROUND_UP)))
        return _decimal(exact)
    if suffix[:1] in ("e", "E") and suffix[1:]:
        return _scientific(_EXACT.scaleb(number, int(suffix[1:])), suffix)
    return _decimal(_EXACT.scaleb(number, _DECIMAL[suffix]))


def amount(value: str | int | float) -> Decimal:
    """Return a quantity's exact value, e.g. cores or bytes.

    Raises:
        ValueError: It is no quantity.
    """
    number, suffix = _split(str(value))
    if suffix in _BINARY[1:]:
        return _EXACT.multiply(number, Decimal(1024 ** _BINARY.index(suffix)))
    if suffix in _DECIMAL:
        return _EXACT.scaleb(number, _DECIMAL[suffix])
    return _EXACT.scaleb(number, int(suffix[1:]))


def _split(text: str) -> tuple[Decimal, str]:
    match = _NUMBER.fullmatch(text)
    if match is None or not re.match(SYNTAX, text):
        raise ValueError(f"quantities must match the regular expression '{SYNTAX}'")
    suffix = match["suffix"]
    if suffix not in _DECIMAL and suffix not in _BINARY and not re.fullmatch(r"[eE][-+]?\d{1,3}", suffix):
        raise ValueError("unable to parse quantity's suffix")
    try:
        return Decimal(match["number"]), suffix
    except InvalidOperation:
        raise ValueError("unable to parse numeric part of quantity") from None


def _digits(exact: Decimal) -> tuple[int, int]:
    """Return mantissa and exponent, the exponent a multiple of three and as large as it can be."""
    nano = exact if exact == _EXACT.quantize(exact, _NANO) else exact.quantize(_NANO, ROUND_UP, _EXACT)
    if not nano:
        return 0, 0
    sign, digits, exponent = nano.normalize(_EXACT).as_tuple()
    mantissa, tens = int("".join(map(str, digits))), int(exponent)
    while tens % 3:
        mantissa, tens = mantissa * 10, tens - 1
    if tens > 18:
        mantissa, tens = mantissa * 10 ** (tens - 18), 18
    return -mantissa if sign else mantissa, tens


def _decimal(exact: Decimal) -> str:
    mantissa, tens = _digits(exact)
    return f"{mantissa}{_DECIMAL_SUFFIX[tens]}"


def _scientific(exact: Decimal, suffix: str) -> str:
    mantissa, tens = _digits(exact)
    return f"{mantissa}{suffix[0]}{tens}" if tens else str(mantissa)


def _binary(whole: int) -> str:
    power = 0
    while whole % 1024 == 0 and power < len(_BINARY) - 1:
        whole, power = whole // 1024, power + 1
    return f"{whole}{_BINARY[power]}"
