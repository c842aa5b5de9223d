"""Random grammars and vocabularies, small enough for the slow twins and nasty enough to find mistakes.

Owns their generation from a seeded source of randomness. Must never filter out what is hard.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from shmcache.grammar.ir import (
    EMPTY,
    NOTHING,
    Characters,
    Choice,
    Expression,
    Grammar,
    Literal,
    Reference,
    Regular,
    Repeat,
    Sequence,
)
from shmcache.limits import Budget
from shmcache.regular.code_points import CodePoints
from shmcache.regular.encode import encode_utf8
from shmcache.regular.operations import everything, length_between, words
from shmcache.vocabulary.vocabulary import Vocabulary

LETTERS = b"ab\xff"
"""The bytes of literals; 255 is the last one, and never part of UTF-8."""

RULES = ("root", "one", "two", "three")

_SETS = [CodePoints.of("a"), CodePoints.of("ab"), CodePoints.of("é"), CodePoints.of("aé😀"), CodePoints(())]
_BOUNDS = [(0, None), (1, None), (0, 1), (2, 3), (0, 0), (1, 2), (2, None), (3, 2)]
_REGULAR = [
    encode_utf8(words(["ab", "abé", "b"], Budget()), Budget()),
    encode_utf8(everything(CodePoints.of("aé")), Budget()),
    encode_utf8(length_between(1, 2, Budget()), Budget()),
    encode_utf8(words([], Budget()), Budget()),
    encode_utf8(words(["", "aa"], Budget()), Budget()),
]


def random_grammar(rng: Random, rule_count: int | None = None) -> Grammar:
    """One to four rules that may recurse in any way, be empty, be unproductive, or be unreachable."""
    names = RULES[: rule_count or rng.randint(1, len(RULES))]
    rules = {name: random_expression(rng, names, rng.randint(1, 3)) for name in names}
    shared = frozenset(name for name in names[1:] if rng.random() < 0.3)
    return Grammar(rules, "root", shared)


def random_expression(rng: Random, names: tuple[str, ...], depth: int) -> Expression:
    """An expression of at most that depth."""
    kind = rng.randrange(8 if depth else 4)
    if kind == 0:
        return Literal(bytes(rng.choice(LETTERS) for _ in range(rng.choice((1, 1, 2, 3)))))
    if kind == 1:
        return Reference(rng.choice(names))
    if kind == 2:
        return rng.choice(
            [Characters(rng.choice(_SETS)), Regular(rng.choice(_REGULAR)), EMPTY, Literal(b""), Literal(b"a"), NOTHING]
        )
    if kind == 3:
        return Sequence((Literal(bytes([rng.choice(LETTERS)])), Reference(rng.choice(names))))
    if kind <= 5:
        items = (random_expression(rng, names, depth - 1) for _ in range(rng.randint(1, 3)))
        return Choice(tuple(items))
    if kind == 6:
        return Sequence(tuple(random_expression(rng, names, depth - 1) for _ in range(rng.randint(1, 3))))
    minimum, maximum = rng.choice(_BOUNDS)
    return Repeat(random_expression(rng, names, depth - 1), minimum, maximum)


def random_texts(rng: Random, grammar: Grammar, count: int, length_max: int = 7) -> Iterator[bytes]:
    """Texts over the grammars' bytes; about half of them follow the rules for as long as they can."""
    for _ in range(count):
        if rng.random() < 0.5:
            data = _derivation(rng, grammar)
            if rng.random() < 0.3 and data:
                at = rng.randrange(len(data))
                data = data[:at] + rng.choice([b"", b"a", b"b", b"\xff", b"\xc3"]) + data[at + 1 :]
            yield data[:length_max]
        else:
            pieces = [b"a", b"b", b"\xff", "é".encode(), "😀".encode(), b"\xc3", b"\xf0\x9f"]
            yield b"".join(rng.choice(pieces) for _ in range(rng.randint(0, length_max - 1)))


def _derivation(rng: Random, grammar: Grammar) -> bytes:
    """A walk through the rules with random choices, cut off where it gets long."""
    out = bytearray()
    pending: list[Expression] = [Reference(grammar.root)]
    for _ in range(60):
        if not pending or len(out) > 10:
            break
        match pending.pop():
            case Literal(data):
                out += data
            case Characters(code_points):
                if code_points:
                    low, high = rng.choice(code_points.ranges)
                    out += chr(rng.randint(low, high)).encode()
            case Regular(automaton):
                state = 0
                while automaton.edges[state] and not (automaton.accepting[state] and rng.random() < 0.4):
                    low, high, state = rng.choice(automaton.edges[state])
                    out.append(rng.randint(low, high))
            case Reference(rule):
                pending.append(grammar.rules[rule])
            case Sequence(items):
                pending.extend(reversed(items))
            case Choice(options):
                pending.extend(rng.choices(options) if options else ())
            case Repeat(item, minimum, maximum):
                pending.extend([item] * rng.randint(minimum, max(minimum, minimum + 2 if maximum is None else maximum)))
    return bytes(out)


def random_vocabulary(rng: Random) -> Vocabulary:
    """Tokens with duplicates, prefixes of each other, halves of characters, gaps, specials, and any width."""
    pieces = [b"a", b"b", b"\xff", "é".encode(), "😀".encode(), b"\xc3", b"\xa9", b"\xf0\x9f", b"\x98\x80", b"x"]
    tokens: list[bytes | None] = [b"a", b"b", b"\xff", b"\xc3", b"\xa9", "é".encode()]
    for _ in range(rng.randint(0, 40)):
        tokens.append(b"".join(rng.choice(pieces) for _ in range(rng.choice((1, 2, 2, 3, 3, 4, 6)))))
    for _ in range(rng.randint(0, 4)):
        tokens.insert(rng.randrange(len(tokens)), rng.choice([None, b"", b"a", b"ab"]))
    if rng.random() < 0.3:
        tokens.append(b"ab" * rng.randint(8, 20))
    rng.shuffle(tokens)
    size = len(tokens)
    width = rng.choice([size, size, size + rng.randint(1, 70), max(1, size - rng.randint(1, 5))])
    below = min(size, width)
    stops = rng.sample(range(below), rng.randint(0, min(2, below)))
    specials = rng.sample(range(size), rng.randint(0, 3))
    return Vocabulary(tokens, special_token_ids=specials, stop_token_ids=stops, width=width)
