"""Quantities in every notation of Kubernetes, and what it refuses."""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_batchjob.core.quantity import (
    NotAQuantity,
    format_cpu,
    format_memory,
    mebibytes,
    memory_bytes,
    millicores,
    parse_quantity,
    whole,
)

READ = {
    "a bare number": ("1", "1"),
    "a JSON integer": (1, "1"),
    "a JSON fraction": (0.1, "0.1"),
    "a JSON fraction that repr writes with an exponent": (1e-07, "0.0000001"),
    "a huge JSON number": (1e21, "1000000000000000000000"),
    "a decimal": (Decimal("1E+3"), "1000"),
    "thousandths": ("14000m", "14"),
    "memory in thousandths of a byte": ("400m", "0.4"),
    "nano": ("1n", "0.000000001"),
    "micro": ("1500u", "0.0015"),
    "kilo": ("1k", "1000"),
    "mega": ("2M", "2000000"),
    "peta": ("1P", "1000000000000000"),
    "E alone is exa": ("1E", "1000000000000000000"),
    "E with digits is an exponent": ("1E3", "1000"),
    "e with digits is an exponent": ("1e3", "1000"),
    "a signed exponent": ("12e+2", "1200"),
    "a negative exponent": ("15E-1", "1.5"),
    "kibi": ("1Ki", "1024"),
    "gibi with a fraction": ("1.5Gi", "1610612736"),
    "exbi": ("1Ei", "1152921504606846976"),
    "no digit before the point": (".5", "0.5"),
    "no digit after the point": ("1.G", "1000000000"),
    "a sign": ("+2", "2"),
    "negative": ("-1.5", "-1.5"),
    "zero": ("0", "0"),
    "leading zeros": ("0010", "10"),
    "finer than nano is rounded up": ("0.0000000001", "0.000000001"),
    "finer than nano is rounded away from zero": ("-0.0000000001", "-0.000000001"),
    "exact where it is longer than a float": ("123456789012345678.123456789", "123456789012345678.123456789"),
    "longer than the default context of decimals": ("9" * 40 + "n", "9" * 31 + "." + "9" * 9),
}


@pytest.mark.parametrize(("text", "want"), READ.values(), ids=READ.keys())
def test_a_quantity_is_read_exactly(text: Any, want: str) -> None:
    assert parse_quantity(text) == Decimal(want)


REFUSED = {
    "a capital K": ("1K", "'k' for powers of 1000, or 'Ki' for powers of 1024"),
    "a space": ("1 Gi", "without spaces"),
    "a line break at the end": ("1Gi\n", "without spaces"),
    "bytes": ("1gb", "'Gi' for powers of 1024"),
    "Kib": ("1Kib", "no suffix 'Kib'"),
    "a lower case g": ("1g", "'G' for powers of 1000"),
    "MB": ("5MB", "'Mi'"),
    "a comma": ("1,5", "not a quantity"),
    "two points": ("1.2.3", "not a quantity"),
    "nothing": ("", "not a quantity"),
    "only a suffix": ("Gi", "not a quantity"),
    "only a point": (".", "not a quantity"),
    "e without digits": ("1e", "no suffix 'e'"),
    "digits of another script": ("١", "not a quantity"),
    "not a number": (float("nan"), "not a quantity"),
    "infinite": (float("inf"), "not a quantity"),
    "a boolean": (True, "True is not a quantity"),
    "null": (None, "None is not a quantity"),
    "an exponent beyond any machine": ("1e999999999", "out of range"),
    "a text of many digits": ("9" * 10_000, "not a quantity"),
}


@pytest.mark.parametrize(("text", "want"), REFUSED.values(), ids=REFUSED.keys())
def test_what_kubernetes_refuses_is_refused_with_the_mend(text: Any, want: str) -> None:
    with pytest.raises(ValueError, match=re.escape(want)):
        parse_quantity(text)


def test_a_refusal_becomes_the_problem_of_a_field() -> None:
    with pytest.raises(NotAQuantity) as raised:
        memory_bytes("1g")

    assert str(raised.value.at("limits.memory")) == (
        "limits.memory='1g': not a quantity: there is no suffix 'g'. "
        "Write 'G' for powers of 1000, or 'Gi' for powers of 1024."
    )


def test_cpu_is_rounded_up_to_a_thousandth() -> None:
    assert [millicores(q) for q in ("2", 0.1, "1n", "1500u", "9333m")] == [2000, 100, 1, 2, 9333]


def test_memory_is_rounded_up_to_a_byte_and_down_to_a_mebibyte() -> None:
    assert [memory_bytes(q) for q in ("400m", "1Ki", "1k")] == [1, 1024, 1000]
    assert [mebibytes(q) for q in ("101Gi", "1G", "1023Ki", 2**20)] == [103424, 953, 0, 1]


def test_a_card_can_not_be_divided() -> None:
    assert [whole(q) for q in ("1", 2, "2000m", 3.0)] == [1, 2, 2, 3]
    with pytest.raises(ValueError, match=r"'1500m' is not a whole number"):
        whole("1500m")


@given(st.integers(0, 10**15))
def test_what_is_written_is_read_back(number: int) -> None:
    assert millicores(format_cpu(number)) == number
    assert mebibytes(format_memory(number)) == number


@given(st.integers(-(10**30), 10**30), st.sampled_from(["n", "u", "m", "", "k", "M", "Ki", "Gi", "E", "Ei"]))
def test_a_whole_number_with_a_suffix_is_never_rounded(number: int, suffix: str) -> None:
    unit = Fraction(parse_quantity(f"1{suffix}"))

    assert Fraction(parse_quantity(f"{number}{suffix}")) == number * unit


@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**20), max_value=10**20))
def test_a_value_is_rounded_away_from_zero_by_less_than_a_nano(value: Decimal) -> None:
    got = Fraction(parse_quantity(f"{value:f}")) if len(f"{value:f}") < 300 else Fraction(value)
    error = abs(got) - abs(Fraction(value))

    assert 0 <= error < Fraction(1, 10**9)


@given(st.text(max_size=12))
def test_any_text_is_read_or_refused_with_value_error(text: str) -> None:
    try:
        value = parse_quantity(text)
    except ValueError as error:
        refusal = str(error)
    else:
        assert value.is_finite()
        return

    assert repr(text) in refusal
