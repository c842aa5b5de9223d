"""Sets of numbers: what the numeric keywords of a schema leave.

Owns the constraint record of numbers, its intersection, and which of its spellings are admitted. The automata are made
by ``number_automata``. Must never know where in an instance a number stands.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from decimal import Context, Decimal
from fractions import Fraction
from functools import reduce
from math import ceil, floor

from shmcache.errors import LimitError
from shmcache.grammar.ir import Expression, Regular
from shmcache.grammar.json_schema.intervals import Interval
from shmcache.grammar.json_schema.keywords import Keywords, Number, is_integral
from shmcache.grammar.json_schema.multiples import multiples
from shmcache.grammar.json_schema.number_automata import any_integer, any_number, integers_between, numbers_between
from shmcache.grammar.json_schema.rules import Rules
from shmcache.limits import Budget
from shmcache.regular.dfa import EMPTY_LANGUAGE, EMPTY_WORD, Dfa
from shmcache.regular.operations import concatenate, intersect, literal, repeat, subtract, unite, words

_LISTED_MAX = 10_000
"""Most multiples between two bounds that are written as a list."""

NUMBER_DIGITS_MAX = 4_000
"""Most digits a bound may have when written without exponent."""


@dataclass(frozen=True, slots=True)
class NumberSet:
    """All numbers that satisfy every field.

    low, high: bounds; None: none. ``low_is_open``: the bound itself is excluded.
    divisors: numbers of which the number must be a multiple.
    spellings: JSON texts of numbers, to one of which the number is equal; None: any number.
    non_divisors: numbers of none of which the number is a multiple. excluded: numbers to which it is not equal.
    """

    is_integer: bool = False
    low: Number | None = None
    low_is_open: bool = False
    high: Number | None = None
    high_is_open: bool = False
    divisors: frozenset[Number] = frozenset()
    spellings: frozenset[str] | None = None
    non_divisors: frozenset[Number] = frozenset()
    excluded: frozenset[Number] = frozenset()


ANY_NUMBER = NumberSet()
ANY_INTEGER = NumberSet(is_integer=True)

_KEYWORDS = frozenset(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"))


def read_numbers(keywords: Keywords, *, is_integer: bool) -> NumberSet:
    """What ``minimum`` and its like say, in the spellings of all drafts."""
    result = ANY_INTEGER if is_integer else ANY_NUMBER
    if not keywords.has_any(_KEYWORDS):
        return result
    for name, exclusive_name, is_low in (
        ("minimum", "exclusiveMinimum", True),
        ("maximum", "exclusiveMaximum", False),
    ):
        bound = keywords.number(name)
        is_flag = isinstance(keywords.schema.get(exclusive_name), bool)  # draft 4
        if bound is not None:
            result = _bounded(result, bound, is_low=is_low, is_open=is_flag and keywords.flag(exclusive_name))
        if not is_flag:
            exclusive = keywords.number(exclusive_name)
            if exclusive is not None:
                result = _bounded(result, exclusive, is_low=is_low, is_open=True)
    divisor = keywords.number("multipleOf")
    if divisor is not None:
        if divisor <= 0:
            raise keywords.malformed("multipleOf", "a number above 0")
        result = replace(result, divisors=frozenset((divisor,)))
    return result


def constant_numbers(values: Iterable[Number]) -> NumberSet:
    """Exactly the numbers equal to one of the values."""
    return NumberSet(spellings=frozenset(map(str, values)))


def _bounded(numbers: NumberSet, bound: Number, *, is_low: bool, is_open: bool) -> NumberSet:
    """``numbers`` with one more bound; the tighter of two bounds stays."""
    if is_low:
        if numbers.low is None or bound > numbers.low or (bound == numbers.low and is_open):
            return replace(numbers, low=bound, low_is_open=is_open)
    elif numbers.high is None or bound < numbers.high or (bound == numbers.high and is_open):
        return replace(numbers, high=bound, high_is_open=is_open)
    return numbers


def intersect_numbers(first: NumberSet, second: NumberSet) -> NumberSet:
    """Numbers of both."""
    result = replace(
        first,
        is_integer=first.is_integer or second.is_integer,
        divisors=first.divisors | second.divisors,
        spellings=_common(first.spellings, second.spellings),
        non_divisors=first.non_divisors | second.non_divisors,
        excluded=first.excluded | second.excluded,
    )
    if second.low is not None:
        result = _bounded(result, second.low, is_low=True, is_open=second.low_is_open)
    if second.high is not None:
        result = _bounded(result, second.high, is_low=False, is_open=second.high_is_open)
    return result


def complement_numbers(numbers: NumberSet) -> tuple[NumberSet, ...]:
    """The numbers that fail a field, one record for each field."""
    failing: list[NumberSet] = []
    if numbers.low is not None:
        failing.append(NumberSet(high=numbers.low, high_is_open=not numbers.low_is_open))
    if numbers.high is not None:
        failing.append(NumberSet(low=numbers.high, low_is_open=not numbers.high_is_open))
    divisors = {*numbers.divisors, 1} if numbers.is_integer else numbers.divisors
    failing.extend(NumberSet(non_divisors=frozenset((divisor,))) for divisor in sorted(divisors))
    failing.extend(NumberSet(divisors=frozenset((divisor,))) for divisor in sorted(numbers.non_divisors))
    if numbers.spellings is not None:
        failing.append(NumberSet(excluded=frozenset(map(Decimal, numbers.spellings))))
    if numbers.excluded:
        failing.append(constant_numbers(numbers.excluded))
    return tuple(failing)


def _common(first: frozenset[str] | None, second: frozenset[str] | None) -> frozenset[str] | None:
    """All spellings, in either set, of numbers that are in both."""
    if first is None or second is None:
        return second if first is None else first
    values = set(map(Decimal, first)) & set(map(Decimal, second))
    return frozenset(spelling for spelling in first | second if Decimal(spelling) in values)


def unite_constants(sets: Iterable[NumberSet]) -> list[NumberSet]:
    """The same union with all sets of mere constants made one."""
    constants: set[str] = set()
    others: list[NumberSet] = []
    for one in sets:
        if one.spellings is not None and one == NumberSet(spellings=one.spellings):
            constants |= one.spellings
        else:
            others.append(one)
    return [*others, NumberSet(spellings=frozenset(constants))] if constants else others


def finite_numbers(numbers: NumberSet, count_max: int) -> list[Number] | None:
    """The numbers of a set, each once; None when they are more than ``count_max``, or not known."""
    if numbers.spellings is not None:
        candidates: Iterable[Decimal] = {Decimal(spelling) for spelling in numbers.spellings}
    elif numbers.is_integer and numbers.low is not None and numbers.high is not None:
        low, high = (int(Decimal(bound).to_integral_value()) for bound in (numbers.low, numbers.high))
        if high - low > count_max:
            return None
        candidates = map(Decimal, range(low - 1, high + 2))
    else:
        return None
    return sorted(value for value in candidates if _satisfies(value, numbers))


class Numbers:
    """Makes the automata of number sets, each once per compile. ``canonical``: integers are spelt the shortest way."""

    def __init__(self, budget: Budget, *, canonical: bool) -> None:
        self._budget = budget
        self._canonical = canonical
        self._known: dict[tuple[NumberSet, ...], Dfa] = {(): EMPTY_LANGUAGE}

    def is_empty(self, sets: tuple[NumberSet, ...]) -> bool:
        """Whether no number is of any of the sets."""
        if ANY_NUMBER in sets or ANY_INTEGER in sets:
            return False
        return self.automaton(sets).is_empty

    def automaton(self, sets: tuple[NumberSet, ...]) -> Dfa:
        """The spellings, as bytes, of the numbers of any of the sets.

        Unbounded numbers are spelt as JSON allows. Where there are bounds or divisors, ``number_automata`` and
        ``multiples`` say which spellings are admitted. A constant is spelt the shortest way without exponent, or as the
        schema spells it.
        """
        known = self._known.get(sets)
        if known is None:
            automata = [self._automaton(one) for one in sets]
            known = self._known[sets] = reduce(lambda one, other: unite(one, other, self._budget), automata)
        return known

    def expression(self, sets: tuple[NumberSet, ...], rules: Rules) -> Expression:
        """The numbers of any of the sets."""
        if ANY_NUMBER in sets:
            return rules.number()
        if sets == (ANY_INTEGER,):
            return rules.integer(shortest=self._canonical)
        return Regular(self.automaton(sets))

    def _automaton(self, numbers: NumberSet) -> Dfa:
        budget = self._budget
        if numbers.spellings is not None:
            return self._constants(numbers, numbers.spellings)
        listed = _few_multiples(numbers)
        if listed is not None:
            return self._listed(listed, is_integer=numbers.is_integer)
        interval = Interval.between(
            _written_out(numbers.low), _written_out(numbers.high), numbers.low_is_open, numbers.high_is_open
        )
        if numbers.is_integer and interval.is_everything:
            result = any_integer(self._canonical)
        elif numbers.is_integer:
            result = integers_between(interval, self._canonical, budget)
        elif interval.is_everything and not (numbers.divisors or numbers.non_divisors or numbers.excluded):
            result = any_number()
        else:
            with_exponents = not (numbers.divisors or numbers.non_divisors)
            result = numbers_between(interval, budget, with_exponents=with_exponents)
        for divisor in sorted(numbers.divisors):
            result = intersect(result, multiples(_checked(divisor), budget), budget)
        for divisor in sorted(numbers.non_divisors):
            result = subtract(result, multiples(_checked(divisor), budget), budget)
        for value in sorted(numbers.excluded):
            point = Interval.between(_checked(value), _checked(value), False, False)
            result = subtract(result, numbers_between(point, budget, with_exponents=True), budget)
        return result

    def _listed(self, values: list[Decimal], *, is_integer: bool) -> Dfa:
        """These numbers without exponent: integers in their shortest spelling, others with any zeros at the end."""
        if is_integer and self._canonical:
            return words([format(value, "f") for value in values], self._budget)
        wholes = [value for value in values if is_integral(value)]
        spelled = words([format(value.to_integral_value(), "f") for value in wholes], self._budget)
        if Decimal(0) in wholes:
            spelled = unite(spelled, words(["-0"], self._budget), self._budget)
        zeros = repeat(literal("0"), 1, None, self._budget)
        point = unite(EMPTY_WORD, concatenate(literal("."), zeros, self._budget), self._budget)
        result = concatenate(spelled, point, self._budget)
        fractions = [format(value.normalize(), "f") for value in values if not is_integral(value)]
        more = unite(EMPTY_WORD, zeros, self._budget)
        return unite(result, concatenate(words(fractions, self._budget), more, self._budget), self._budget)

    def _constants(self, numbers: NumberSet, spellings: frozenset[str]) -> Dfa:
        admitted = [text for text in spellings if _satisfies(Decimal(text), numbers)]
        forms = (form for text in admitted for form in _forms(text, self._canonical, is_integer=numbers.is_integer))
        return words(sorted(forms), self._budget)


def _few_multiples(numbers: NumberSet) -> list[Decimal] | None:
    """The numbers of a bounded set of multiples where they are fewer than the remainders; None: they are not."""
    if numbers.low is None or numbers.high is None or not numbers.divisors:
        return None
    divisor = Fraction(_checked(max(numbers.divisors)))
    first, last = Fraction(_checked(numbers.low)) / divisor, Fraction(_checked(numbers.high)) / divisor
    if last - first > min(_LISTED_MAX, divisor.numerator):
        return None
    exact = Context(prec=2 * NUMBER_DIGITS_MAX)
    values = (
        exact.divide(Decimal(factor * divisor.numerator), Decimal(divisor.denominator))
        for factor in range(ceil(first), floor(last) + 1)
    )
    return [value for value in values if _satisfies(value, numbers)]


def _satisfies(value: Decimal, numbers: NumberSet) -> bool:
    if numbers.is_integer and not is_integral(value):
        return False
    if numbers.low is not None and (value < numbers.low or (numbers.low_is_open and value == numbers.low)):
        return False
    if numbers.high is not None and (value > numbers.high or (numbers.high_is_open and value == numbers.high)):
        return False
    if value in numbers.excluded or any(_is_multiple(value, divisor) for divisor in numbers.non_divisors):
        return False
    return all(_is_multiple(value, divisor) for divisor in numbers.divisors)


def _is_multiple(value: Decimal, divisor: Number) -> bool:
    return Fraction(_checked(value)) % Fraction(_checked(divisor)) == 0


def _forms(spelling: str, canonical: bool, *, is_integer: bool) -> Iterable[str]:
    """The shortest spelling without exponent; where the schema itself writes more, its own, and one with ``.0``."""
    value = Decimal(spelling)
    if _digit_count(value) > NUMBER_DIGITS_MAX:
        yield spelling
        return
    plain = format(value, "f")
    if "." in plain:
        plain = plain.rstrip("0").rstrip(".")
    if plain == "-0":
        plain = "0"
    yield plain
    if (spelling != plain and not is_integer) or not canonical:
        yield spelling
        if is_integral(value):
            yield f"{plain}.0"


def _written_out(bound: Number | None) -> Decimal | None:
    return None if bound is None else _checked(bound)


def _checked(number: Number) -> Decimal:
    """The number, once it is sure that it can be written without exponent."""
    value = Decimal(number)
    if _digit_count(value) > NUMBER_DIGITS_MAX:
        raise LimitError(
            f"the number {value} takes more than {NUMBER_DIGITS_MAX} digits",
            limit="number_digits",
            value=NUMBER_DIGITS_MAX,
        )
    return value


def _digit_count(value: Decimal) -> int:
    """A bound on the digits of the number written without exponent."""
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    return len(digits) + abs(exponent)
