"""Strings of a given number of characters.

Owns the counting of JSON characters, a character being one code point in any spelling. Must never know a schema.

Up to ``_DIRECT_COUNT_MAX`` one automaton counts. Longer strings are made of blocks of ``_BLOCK_LENGTH`` characters, of
blocks of so many blocks, and so on: a number of characters is composed of blocks in one way only, as its digits to that
base say. The rules that count to n have about ``_BLOCK_LENGTH * log(n)`` states, and all schemas share the full ones.
"""

from __future__ import annotations

from shmcache.grammar.ir import Expression, Literal, Regular
from shmcache.grammar.json_schema.expressions import choice, repeat, sequence
from shmcache.grammar.json_schema.rules import Rules
from shmcache.grammar.json_schema.string_automata import counted
from shmcache.limits import Budget

_DIRECT_COUNT_MAX = 2048
_BLOCK_LENGTH = 256
# Rows cost more than states: near the end of a count every state has a row of its own, in each rule that counts. For
# 2,000 characters and 131,072 tokens one rule compiled in 3.1 s, three rules of blocks in 6.6 s (2-core x86-64).


def counted_string(minimum: int, maximum: int | None, rules: Rules, budget: Budget) -> Expression:
    """All strings of ``minimum`` up to ``maximum`` characters (None: no bound), quotes included."""
    if (minimum if maximum is None else maximum) <= _DIRECT_COUNT_MAX:
        return Regular(counted(minimum, maximum, budget, has_quotes=True))
    quote = Literal(b'"')
    if maximum is None:
        rest: Expression = rules.shared("characters", lambda: Regular(counted(0, None, budget, has_quotes=False)))
    else:
        rest = _up_to(maximum - minimum, rules, budget)
    return sequence(quote, _exactly(minimum, rules, budget), rest, quote)


def _between(minimum: int, maximum: int, rules: Rules, budget: Budget) -> Expression:
    """A call of the rule for so many characters, fewer than a block has."""
    if maximum == 0:
        return sequence()
    what = ("characters", minimum, maximum)
    return rules.shared(what, lambda: Regular(counted(minimum, maximum, budget, has_quotes=False)))


def _block(power: int, rules: Rules, budget: Budget) -> Expression:
    """``_BLOCK_LENGTH**power`` characters, for a power above 0."""
    if power == 1:
        return _between(_BLOCK_LENGTH, _BLOCK_LENGTH, rules, budget)
    return rules.shared(
        ("characters", power), lambda: repeat(_block(power - 1, rules, budget), _BLOCK_LENGTH, _BLOCK_LENGTH)
    )


def _exactly(count: int, rules: Rules, budget: Budget) -> Expression:
    count, digit = divmod(count, _BLOCK_LENGTH)
    parts = [_between(digit, digit, rules, budget)]
    power = 1
    while count:
        count, digit = divmod(count, _BLOCK_LENGTH)
        parts.append(repeat(_block(power, rules, budget), digit, digit))
        power += 1
    return sequence(*reversed(parts))


def _up_to(count: int, rules: Rules, budget: Budget) -> Expression:
    """At most ``count`` characters: as many blocks as its first digit says and then the rest, or fewer blocks."""
    count, digit = divmod(count, _BLOCK_LENGTH)
    result = _between(0, digit, rules, budget)
    any_below = _between(0, _BLOCK_LENGTH - 1, rules, budget) if count else sequence()  # less than a block of ``power``
    power = 1
    while count:
        count, digit = divmod(count, _BLOCK_LENGTH)
        block = _block(power, rules, budget)
        if digit:
            fewer = sequence(repeat(block, 0, digit - 1), any_below)
            result = choice((fewer, sequence(repeat(block, digit, digit), result)))
        any_below = sequence(repeat(block, 0, _BLOCK_LENGTH - 1), any_below)
        power += 1
    return result
