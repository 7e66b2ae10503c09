"""Counts and percentages: exact, floor for failures allowed, ceiling for successes needed."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_batchjob.core.request.budget import (
    Thresholds,
    ceiling_of,
    count_problem,
    floor_of,
    is_percentage,
    share_problem,
    threshold_problems,
    whole_number,
)

PERCENTAGES = st.decimals(min_value=0, max_value=100, places=3).map(lambda p: f"{p}%")
COMPLETIONS = st.integers(min_value=0, max_value=2**31 - 1)

SHARES = {
    "a count stands for itself": (20, 2000, 20, 20),
    "a count may arrive as text": ("20", 2000, 20, 20),
    "one per cent of two thousand": ("1%", 2000, 20, 20),
    "failures are rounded down, successes up": ("1%", 250, 2, 3),
    "a part of a per cent": ("12.5%", 10, 1, 2),
    "exact where floats are not": ("29%", 100, 29, 29),
    "exact at the largest number of completions": ("0.1%", 2**31 - 1, 2147483, 2147484),
    "nothing": ("0%", 2000, 0, 0),
    "all": ("100%", 7, 7, 7),
    "of no completions": ("50%", 0, 0, 0),
    "blanks around it are Jinja's": (" 50 % ", 10, 5, 5),
}


@pytest.mark.parametrize(
    ("share", "completions", "want_floor", "want_ceiling"), SHARES.values(), ids=SHARES.keys()
)
def test_a_share_of_the_completions(share, completions, want_floor, want_ceiling) -> None:
    assert (floor_of(share, completions), ceiling_of(share, completions)) == (want_floor, want_ceiling)


@given(percentage=PERCENTAGES, completions=COMPLETIONS)
def test_rounding_never_makes_a_batch_more_lenient(percentage, completions) -> None:
    exact = Fraction(percentage.rstrip("%")) / 100 * completions

    assert floor_of(percentage, completions) <= exact <= ceiling_of(percentage, completions)
    assert ceiling_of(percentage, completions) - floor_of(percentage, completions) <= 1


@given(percentage=PERCENTAGES, completions=COMPLETIONS)
def test_what_may_fail_and_what_must_succeed_add_up(percentage, completions) -> None:
    rest = f"{100 - Decimal(percentage.rstrip('%'))}%"

    assert floor_of(percentage, completions) + ceiling_of(rest, completions) == completions


WRONG_SHARES = {
    "above 100 %": ("101%", "above 100%"),
    "above 100 % by a little": ("100.001%", "above 100%"),
    "negative percentage": ("-1%", "not a percentage"),
    "no number": ("%", "not a percentage"),
    "an exponent": ("1e1%", "not a percentage"),
    "negative count": (-1, "below 0"),
    "a fraction": (0.5, "neither a whole number nor a percentage"),
    "a word": ("most", "neither a whole number nor a percentage"),
    "a truth value": (True, "neither a whole number nor a percentage"),
    "empty": ("", "neither a whole number nor a percentage"),
    "digits of another script": ("١٠%", "not a percentage"),
    "a very long number": ("9" * 5000, "neither a whole number nor a percentage"),
}


@pytest.mark.parametrize(("share", "want"), WRONG_SHARES.values(), ids=WRONG_SHARES.keys())
def test_a_wrong_share_is_named(share, want) -> None:
    problem = share_problem("min_succeeded", share)

    assert problem is not None
    assert (problem.field, problem.value, problem.why) == ("min_succeeded", share, want)


NUMBERS = {
    "a number": (7, 7),
    "its text": ("7", 7),
    "with blanks": (" 7\n", 7),
    "negative": ("-7", -7),
    "JSON's only kind of number": (7.0, 7),
}


@pytest.mark.parametrize(("value", "want"), NUMBERS.values(), ids=NUMBERS.keys())
def test_numbers_arrive_as_text_too(value, want) -> None:
    assert whole_number(value) == want


@pytest.mark.parametrize("value", [True, 7.5, "7.5", "", "seven", None, [7], "0x7", "7_0"])
def test_what_is_no_whole_number_is_refused(value) -> None:
    with pytest.raises(ValueError, match="not a whole number"):
        whole_number(value)


COUNTS = {
    "in range": (5, None),
    "below": (0, "below 1"),
    "above": (11, "above 10"),
    "no number": ("x", "not a whole number"),
}


@pytest.mark.parametrize(("value", "want"), COUNTS.values(), ids=COUNTS.keys())
def test_a_count_has_a_range(value, want) -> None:
    problem = count_problem("deadline_seconds", value, least=1, most=10)

    assert (problem.why if problem else None) == want


@pytest.mark.parametrize(("value", "want"), [("1%", True), ("1 % ", True), ("1", False), (1, False)])
def test_percentages_are_told_from_counts(value, want) -> None:
    assert is_percentage(value) is want


AGREEING = {
    "the two borders meet": (2000, "1%", "99%"),
    "no fuse": (10, None, 3),
    "all must succeed, with a fuse of none": (10, 0, None),
    "all must succeed, with any fuse": (10, "50%", None),
    "the fuse is laxer": (10, 8, 5),
    "asked for all in so many words": (10, 0, "100%"),
    "what can't be read is not judged here": (10, "many", 5),
    "nothing is asked": (10, None, None),
}


@pytest.mark.parametrize(("completions", "fuse", "needed"), AGREEING.values(), ids=AGREEING.keys())
def test_thresholds_that_agree(completions, fuse, needed) -> None:
    assert threshold_problems(completions, max_failed_indexes=fuse, min_succeeded=needed) == []


CONTRADICTING = {
    "the fuse fires too early": (10, 0, 9, "max_failed_indexes"),
    "the fuse fires too early, in percent": (2000, "0.9%", "99%", "max_failed_indexes"),
    "text counts as a number": ("10", 1, "5", "max_failed_indexes"),
    "more failures than indexes": (10, 11, None, "max_failed_indexes"),
    "more successes than indexes": (10, None, 11, "min_succeeded"),
}


@pytest.mark.parametrize(
    ("completions", "fuse", "needed", "want"), CONTRADICTING.values(), ids=CONTRADICTING.keys()
)
def test_thresholds_that_contradict(completions, fuse, needed, want) -> None:
    problems = threshold_problems(int(completions), max_failed_indexes=fuse, min_succeeded=needed)

    assert [problem.field for problem in problems] == [want]


def test_the_early_fuse_says_when_it_would_fire_and_both_ways_out() -> None:
    (problem,) = threshold_problems(100, max_failed_indexes=2, min_succeeded="90%")

    assert "at the 3rd failed index" in problem.why
    assert "min_succeeded='90%' (90 of 100) can still be met" in problem.why
    assert problem.mend == "Allow 10 failed indexes or more, or ask for 98 successes or more"


@given(
    completions=st.integers(min_value=1, max_value=500),
    fuse=st.integers(min_value=0, max_value=500),
    needed=st.integers(min_value=0, max_value=500),
)
def test_a_fuse_is_refused_exactly_when_it_could_end_a_job_that_may_still_succeed(
    completions, fuse, needed
) -> None:
    fuse, needed = min(fuse, completions), min(needed, completions)
    failed_when_it_fires = fuse + 1
    could_still_be_met = completions - failed_when_it_fires >= needed

    problems = threshold_problems(completions, max_failed_indexes=fuse, min_succeeded=needed)

    assert bool(problems) is could_still_be_met


NEEDED = {
    "all, where nothing was asked": (Thresholds(completions=10, indexed=True), 10),
    "what was asked": (Thresholds(completions=10, indexed=True, min_succeeded=7), 7),
    "none": (Thresholds(completions=10, indexed=True, min_succeeded=0), 0),
    "unknown for a work queue": (Thresholds(completions=None, indexed=False), None),
}


@pytest.mark.parametrize(("thresholds", "want"), NEEDED.values(), ids=NEEDED.keys())
def test_how_many_are_needed(thresholds, want) -> None:
    assert thresholds.needed == want
