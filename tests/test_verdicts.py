"""One verdict value, as judges, files and frameworks write it."""

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from ragbench.judging.verdicts import NO, YES, read_value


@pytest.mark.parametrize(
    "value",
    [
        "Yes",
        "yes.",
        "YES ",
        " yes",
        "是",
        "是的。",
        "是的",
        "ＹＥＳ",
        "Yes．",
        "true",
        "True",
        "TRUE",
        "1",
        "1.0",
        "１",
        "1.",
        "+1",
        "1e0",
        1,
        1.0,
        True,
        np.True_,
        np.float32(1),
        np.int64(1),
        "\u3000是\n",
        "pass",
        "Passed",
        "通过",
        Decimal(1),
        Fraction(1, 1),
    ],
)
def test_what_means_yes_scores_the_highest(value):
    assert read_value(value) == (1.0, None)


@pytest.mark.parametrize(
    "value",
    [
        "No",
        "no.",
        "NO",
        "否",
        "否。",
        "false",
        "False",
        "0",
        "0.0",
        "０",
        0,
        0.0,
        False,
        np.False_,
        "-0",
        "fail",
        "Failed",
        "不通过",
        "n",
    ],
)
def test_what_means_no_scores_the_lowest(value):
    assert read_value(value) == (0.0, None)


@pytest.mark.parametrize(
    "value",
    [
        "Yes, but it fails rule 3, so No",
        "maybe",
        "Answer Yes or No:",
        "Yes/No",
        "yes yes",
        "Yes No",
        "不是的吗",
        "是否",
        "unknown",
        "N/A",
        "1/1",
        "1 of 1",
        "On a scale of 0-3 I give 2",
        "0x1",
        "1_0",
        "Yes..",
        "**Yes**",
        "=1+1",
        "score: 1",
        '{"verdict": "Yes"}',
        "½",
        "①",
        "十",
        "1 000",
    ],
)
def test_anything_else_is_an_error_that_keeps_the_text(value):
    score, why = read_value(value)
    assert score is None
    assert value in why


@pytest.mark.parametrize("value", [None, "", "  ", "\n", "\u3000"])
def test_nothing_is_an_error_and_never_a_zero(value):
    assert read_value(value) == (None, "no value")


@pytest.mark.parametrize(
    "value", [math.nan, math.inf, -math.inf, "nan", "NaN", "-inf", "Infinity", "1e999", 10**400]
)
def test_what_is_no_finite_number_is_an_error(value):
    score, why = read_value(value)
    assert score is None
    assert why.startswith("not a number")


def test_numbers_within_the_range_of_the_criterion_are_themselves():
    assert read_value("4", 1, 5) == (4.0, None)
    assert read_value(1, 1, 5) == (1.0, None)
    assert read_value("0.25") == (0.25, None)
    assert read_value("-1", -1, 1) == (-1.0, None)


def test_yes_and_no_are_the_ends_of_the_range():
    assert read_value("Yes", 1, 5) == (5.0, None)
    assert read_value(False, 1, 5) == (1.0, None)


@pytest.mark.parametrize(
    ("value", "low", "high"), [(2, 0, 1), ("-0.1", 0, 1), ("0", 1, 5), (85, 0, 1)]
)
def test_numbers_outside_the_range_are_errors_that_name_it(value, low, high):
    score, why = read_value(value, low, high)
    assert score is None
    assert f"outside {low} to {high}" in why


def test_a_decimal_comma_is_read_where_it_cannot_be_a_thousands_mark():
    assert read_value("0,5") == (0.5, None)
    assert read_value("0,125") == (0.125, None)
    assert read_value("3,75", 1, 5) == (3.75, None)
    assert read_value("1,000")[0] is None  # one, or a thousand?
    assert read_value("1,000", 0, 5000)[0] is None
    assert read_value("1.234,5", 0, 5000)[0] is None


@pytest.mark.parametrize("value", [[1], {"score": 1}, b"1", object(), [float("nan")] * 3, 1 + 2j])
def test_things_that_are_no_values_are_errors(value):
    score, why = read_value(value)
    assert score is None
    assert why


def test_an_endless_text_makes_a_short_message():
    _, why = read_value("x" * 10_000_000)
    assert len(why) < 200


def test_a_word_is_never_both_yes_and_no():
    assert not YES & NO
