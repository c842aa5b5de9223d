"""Numbers: bounds, multiples and constants against exact arithmetic."""

from __future__ import annotations

import itertools
import re
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shmcache.grammar.json_schema import numbers as numbers_module
from shmcache.grammar.json_schema.multiples import multiples
from shmcache.grammar.json_schema.numbers import Numbers, NumberSet, intersect_numbers
from shmcache.limits import Budget
from tests.grammar.json_schema_cases import check, grammar_of
from tests.reference.grammar_recogniser import recognises

JSON_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")
SHORTEST_INTEGER = re.compile(r"0|-?[1-9]\d*")
BOUNDED = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?|-?[1-9](\.\d+)?[eE][+-]?\d+|-?0(\.0+)?[eE][+-]?\d+")
"""The spellings admitted between bounds."""


def automaton_accepts(numbers: NumberSet, text: str, *, canonical: bool = True) -> bool:
    return Numbers(Budget(), canonical=canonical).automaton((numbers,)).accepts(text.encode())


@pytest.mark.parametrize("low", [None, -12, -1, 0, 7, 10])
@pytest.mark.parametrize("high", [None, -10, -1, 0, 1, 9, 10, 101])
def test_integer_bounds_exhaustively(low: int | None, high: int | None) -> None:
    for low_is_open, high_is_open in itertools.product((False, True), repeat=2):
        record = NumberSet(True, low, low_is_open, high, high_is_open)
        automaton = Numbers(Budget(), canonical=True).automaton((record,))
        for value in range(-130, 130):
            expected = (low is None or value > low or (value == low and not low_is_open)) and (
                high is None or value < high or (value == high and not high_is_open)
            )
            assert automaton.accepts(str(value).encode()) == expected, (record, value)
        for text in (b"", b"-", b"-0", b"00", b"01", b"1.0", b"1e1", b"+1", b"-01"):
            assert not automaton.accepts(text)


def test_decimal_bounds_exhaustively() -> None:
    texts = [f"{sign}{whole}{fraction}" for sign in ("", "-") for whole in range(4) for fraction in FRACTIONS]
    for low, high in itertools.product((None, "-1.5", "-0.05", "0", "0.05", "1", "2.55"), repeat=2):
        bounds = [None if bound is None else Decimal(bound) for bound in (low, high)]
        for is_open in (False, True):
            record = NumberSet(False, bounds[0], is_open, bounds[1], is_open)
            automaton = Numbers(Budget(), canonical=True).automaton((record,))
            for text in texts:
                assert automaton.accepts(text.encode()) == in_bounds(Decimal(text), record), (record, text)


FRACTIONS = ("", ".0", ".5", ".05", ".050", ".55", ".549", ".5500001", ".49999")


def in_bounds(value: Decimal, record: NumberSet) -> bool:
    if record.low is not None and (value < record.low or (value == record.low and record.low_is_open)):
        return False
    return record.high is None or value < record.high or (value == record.high and not record.high_is_open)


DECIMALS = st.decimals(min_value=-2000, max_value=2000, allow_nan=False, places=3) | st.sampled_from(
    [Decimal("1e-7"), Decimal("-3.25e12"), Decimal("1e22"), Decimal("999.999")]
)
SPELLINGS = st.from_regex(r"-?(0|[1-9][0-9]{0,4})(\.[0-9]{1,5})?([eE][+-]?0?[0-9])?", fullmatch=True).filter(
    str.isascii
)


@settings(deadline=None)
@given(st.none() | DECIMALS, st.none() | DECIMALS, st.booleans(), st.booleans(), st.lists(SPELLINGS, max_size=20))
def test_bounds_at_any_precision(
    low: Decimal | None, high: Decimal | None, low_is_open: bool, high_is_open: bool, texts: list[str]
) -> None:
    record = NumberSet(False, low, low_is_open, high, high_is_open)
    automaton = Numbers(Budget(), canonical=True).automaton((record,))
    near = [bound for bound in (low, high) if bound is not None]
    texts = [*texts, *(format(bound, "f") for bound in near), *(f"{bound:.9e}" for bound in near)]
    for text in texts:
        assert JSON_NUMBER.fullmatch(text)
        is_spelled_so = BOUNDED.fullmatch(text) is not None or not near
        assert automaton.accepts(text.encode()) == (is_spelled_so and in_bounds(Decimal(text), record)), text


@settings(deadline=None)
@given(
    st.sampled_from(["1", "7", "12", "250", "1000", "0.5", "0.01", "2.5", "0.003", "1e5"]),
    st.lists(SPELLINGS | st.integers(-(10**6), 10**6).map(lambda value: str(value * 5)), max_size=30),
)
def test_multiples(divisor: str, texts: list[str]) -> None:
    automaton = multiples(Decimal(divisor), Budget())
    for text in texts:
        expected = "e" not in text.lower() and Decimal(text) % Decimal(divisor) == 0
        assert automaton.accepts(text.encode()) == expected, text


@pytest.mark.parametrize(
    ("schema", "valid", "invalid"),
    [
        ({"type": "integer", "minimum": -5}, [-5, 0, 10**20], [-6, b"-5.0", -(10**20)]),
        (
            {"type": "number", "exclusiveMinimum": 0},
            [1, b"0.0001", b"1e-07", b"5E+300"],
            [0, -1, b"-0", b"0.0", b"0e5"],
        ),
        ({"type": "number", "minimum": -4, "maximum": 4}, [-4, 4, b"3.999", b"4.0", b"-4e0"], [b"4.0001", -5, b"4e1"]),
        ({"type": "number", "minimum": 0}, [0, b"0.0", b"-0", b"1.5e-07"], [b"-0.1", -1]),
        ({"type": "number", "maximum": 1, "exclusiveMaximum": True}, [b"0.99"], [1, b"1.0", 2]),
        ({"type": "number", "maximum": 1, "exclusiveMaximum": False}, [1], [b"1.01"]),
        ({"type": "integer", "minimum": 1.5, "maximum": 3.5}, [2, 3], [1, 4]),
        ({"type": "integer", "exclusiveMinimum": 1, "minimum": 0, "maximum": 2}, [2], [0, 1]),
        ({"type": "integer", "multipleOf": 7}, [0, 7, -14, 7007], [1, 8, 13]),
        ({"type": "number", "multipleOf": 0.01}, [0, 1, b"0.01", b"2.5", b"3.140"], [b"0.001", b"3.141"]),
        ({"type": "integer", "multipleOf": 3, "minimum": 10, "maximum": 20}, [12, 15, 18], [9, 10, 21]),
        ({"type": "integer", "multipleOf": 2.5}, [0, 5, -10], [1, 2]),
        ({"allOf": [{"multipleOf": 2}, {"multipleOf": 3}], "type": "integer"}, [6, 12, 0], [2, 3, 4]),
        ({"enum": [1, 2.5, 4], "multipleOf": 2}, [4], [1, b"2.5"]),
        ({"anyOf": [{"maximum": 0}, {"minimum": 10}], "type": "integer"}, [0, -1, 10], [1, 9]),
    ],
)
def test_number_keywords(schema: Any, valid: list[Any], invalid: list[Any]) -> None:
    check(schema, valid, invalid)


def test_numbers_that_are_not_canonical() -> None:
    schema = {"type": "integer"}
    check(schema, [1, b"1.0", b"-0", b"1e3", b"1.00E+2"], [b"1.5", b"1e-1", b"01"], canonical_numbers=False)
    schema = {"type": "integer", "minimum": 1, "maximum": 12}
    check(schema, [1, b"1.0", b"12.000"], [0, b"12.1", b"0.5", 13], canonical_numbers=False)
    check({"const": 1}, [1, b"1.0"], [2, b"1.1"], canonical_numbers=False)


def test_the_sign_of_zero() -> None:
    for text, schema in itertools.product((b"0", b"-0", b"-0.0", b"0.0"), ({"minimum": 0}, {"maximum": 0}, {})):
        assert recognises(grammar_of({"type": "number", **schema}), text)
    assert recognises(grammar_of('{"type": "number", "minimum": -0.0}'), b"0")
    assert not recognises(grammar_of('{"type": "number", "exclusiveMaximum": -0.0}'), b"-0")


RECORDS = st.builds(
    NumberSet,
    st.booleans(),
    st.none() | st.integers(-3, 3),
    st.booleans(),
    st.none() | st.integers(-3, 3),
    st.booleans(),
    st.frozensets(st.sampled_from([2, 3]), max_size=1),
    st.none() | st.frozensets(st.sampled_from(["0", "1", "1.0", "2.5", "-3", "6"])),
)


@settings(deadline=None)
@given(RECORDS, RECORDS)
def test_intersection_of_records(first: NumberSet, second: NumberSet) -> None:
    joint = intersect_numbers(first, second)
    for text in ("-3", "-2", "0", "1", "1.5", "2", "2.5", "3", "6"):
        expected = automaton_accepts(first, text) and automaton_accepts(second, text)
        assert automaton_accepts(joint, text) == expected, (text, joint)


def test_many_digits_are_cheap() -> None:
    budget = Budget(states_max=20_000)
    for is_integer in (False, True):
        for bound in (2**63 - 1, Decimal("1.7976931348623157e308")):
            record = NumberSet(is_integer, -bound, False, bound, False)
            automaton = Numbers(budget, canonical=True).automaton((record,))
            assert automaton.accepts(str(2**63 - 1).encode())
            assert automaton.state_count < 2000


DIVISORS = st.one_of(
    st.integers(1, 60).map(Decimal),
    st.integers(1, 400).map(lambda hundredths: Decimal(hundredths) / 100),
    st.integers(1, 9).map(lambda tens: Decimal(tens * 10)),
)
BOUNDS = st.tuples(st.integers(-500, 500), st.sampled_from([1, 10, 100])).map(lambda one: Decimal(one[0]) / one[1])
BOUNDED_MULTIPLES = st.builds(
    NumberSet,
    is_integer=st.booleans(),
    low=BOUNDS,
    low_is_open=st.booleans(),
    high=BOUNDS,
    high_is_open=st.booleans(),
    divisors=st.frozensets(DIVISORS, min_size=1, max_size=2),
    non_divisors=st.sampled_from([frozenset(), frozenset((Decimal(7),))]),
    excluded=st.sampled_from([frozenset(), frozenset((Decimal(0),))]),
)


@settings(max_examples=60, deadline=None)
@given(BOUNDED_MULTIPLES, st.booleans())
def test_few_multiples_between_bounds_are_those_of_the_remainders(numbers: NumberSet, canonical: bool) -> None:
    listed = Numbers(Budget(), canonical=canonical).automaton((numbers,))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numbers_module, "_LISTED_MAX", -1)
        assert Numbers(Budget(), canonical=canonical).automaton((numbers,)) == listed


def test_multiples_of_large_numbers_between_bounds_need_no_remainders() -> None:
    schema = {"type": "integer", "multipleOf": 1_000_003, "minimum": 0, "maximum": 10**9}
    check(schema, [0, 1_000_003, 999 * 1_000_003], [1, 1_000_004, 1_000 * 1_000_003])
