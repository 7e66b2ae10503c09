"""Numbers in text that anyone may have written."""

from __future__ import annotations

import pytest

from airflow_batchjob.core.digits import digits

TEXTS = {
    "a number": ("17", 17),
    "leading noughts": ("007", 7),
    "the largest": ("9999999999", 9_999_999_999),
    "too many digits": ("10000000000", None),
    "more digits than Python reads": ("1" * 5_000, None),
    "nothing": ("", None),
    "a word": ("abc", None),
    "a sign": ("-1", None),
    "a space": (" 1", None),
    "an underscore": ("1_0", None),
    "a superscript": ("²", None),
    "digits of another script": ("٣", None),
}


@pytest.mark.parametrize(("text", "want"), TEXTS.values(), ids=TEXTS.keys())
def test_digits(text: str, want: int | None) -> None:
    assert digits(text) == want
