"""Quantities: one form for each value, and no value changed by it."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_batchjob.local.api.quantity import amount, canonical

FORMS = {
    "0.5": "500m",
    "1000m": "1",
    "1024Mi": "1Gi",
    "1.5Gi": "1536Mi",
    "1023": "1023",
    "0.5Ki": "512",
    "12000": "12k",
    "1e3": "1e3",
    "1E3": "1E3",
    "1E": "1E",
    "-1": "-1",
    "0": "0",
    "0Gi": "0",
    "400m": "400m",
    "0.0000000001": "1n",
    "100000000000000000000000": "100000E",
}


@pytest.mark.parametrize(("text", "want"), FORMS.items(), ids=FORMS.keys())
def test_form(text: str, want: str) -> None:
    assert canonical(text) == want


@pytest.mark.parametrize("text", ["", "K", "1 Gi", "1gb", "1Kib", "1x", "one", "1.2.3", "Gi"])
def test_no_quantity(text: str) -> None:
    with pytest.raises(ValueError, match=r"quantit|suffix"):
        canonical(text)


NUMBERS = st.decimals(min_value=-(10**15), max_value=10**15, places=3, allow_nan=False)
SUFFIXES = st.sampled_from(["", "m", "k", "M", "G", "Ki", "Mi", "Gi"])


@given(NUMBERS, SUFFIXES)
def test_its_form_has_a_form_of_its_own_and_the_value_of_the_text(number: Decimal, suffix: str) -> None:
    text = f"{number:f}{suffix}"
    form = canonical(text)

    assert canonical(form) == form
    # Binary ones are whole bytes, the others whole billionths, rounded away from zero.
    assert 0 <= abs(amount(form)) - abs(amount(text)) < 1
