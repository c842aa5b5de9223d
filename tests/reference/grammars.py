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
    Graph,
    Literal,
    Reference,
    Regular,
    Repeat,
    Sequence,
)
from shmcache.limits import Budget
from shmcache.regular.code_points import ANY, CodePoints
from shmcache.regular.dfa import Dfa
from shmcache.regular.encode import encode_utf8
from shmcache.regular.operations import everything, length_between, words
from shmcache.vocabulary.vocabulary import Vocabulary

LETTERS = b"ab\xff"
"""The bytes of literals; 255 is the last one, and never part of UTF-8."""

RULES = ("root", "one", "two", "three")

_SETS = [CodePoints.of("a"), CodePoints.of("ab"), CodePoints.of("é"), CodePoints.of("aé😀")]
_BOUNDS = [(0, None), (0, None), (1, None), (0, 1), (0, 1), (2, 3), (0, 0), (1, 2), (2, None), (3, 2)]
_REGULAR = [
    encode_utf8(words(["ab", "abé", "b"], Budget()), Budget()),
    encode_utf8(everything(CodePoints.of("aé")), Budget()),
    encode_utf8(length_between(1, 2, Budget()), Budget()),
    encode_utf8(words([], Budget()), Budget()),
    encode_utf8(words(["", "aa"], Budget()), Budget()),
    encode_utf8(everything(ANY - CodePoints.of("b")), Budget()),
    Dfa((((0x00, 0xFF, 1),), ((0x00, 0xFF, 0),)), (True, False)),
]


def random_grammar(rng: Random, rule_count: int | None = None) -> Grammar:
    """One to four rules that may recurse in any way, be empty, be unproductive, or be unreachable."""
    names = RULES[: rule_count or rng.choice((1, 2, 2, 3, 3, 4))]
    rules = {name: _rule(rng, names) for name in names}
    shared = frozenset(name for name in names[1:] if rng.random() < 0.6)
    return Grammar(rules, "root", shared)


def _rule(rng: Random, names: tuple[str, ...]) -> Expression:
    """A few alternatives, each a sequence; mostly one of them calls nothing, so that most rules have words."""
    options = [_sequence(rng, names, 2) for _ in range(rng.randint(1, 3))]
    if rng.random() < 0.7:
        options.append(_sequence(rng, (), 1))
    return Choice(tuple(options))


def _sequence(rng: Random, names: tuple[str, ...], depth: int) -> Expression:
    return Sequence(tuple(_item(rng, names, depth) for _ in range(rng.choice((1, 2, 2, 3)))))


def _item(rng: Random, names: tuple[str, ...], depth: int) -> Expression:
    kind = rng.randrange(12)
    if kind < 4:
        return Literal(bytes(rng.choice(LETTERS) for _ in range(rng.choice((1, 1, 1, 2, 3)))))
    if kind < 7 and names:
        return Reference(rng.choice(names))
    if kind == 7 and depth:
        return Choice((_sequence(rng, names, depth - 1), _sequence(rng, names, depth - 1)))
    if kind == 8 and depth:
        minimum, maximum = rng.choice(_BOUNDS)
        return Repeat(_sequence(rng, names, depth - 1), minimum, maximum)
    if kind == 9 and depth:
        states = rng.randint(1, 3)
        edges = ((rng.randrange(states), _item(rng, names, depth - 1), rng.randrange(states)) for _ in range(4))
        return Graph(states, tuple(edges), rng.randrange(states))
    rare = rng.choice((EMPTY, NOTHING, Literal(b""), Characters(CodePoints(()))))
    return rng.choice(
        (Characters(rng.choice(_SETS)), Characters(rng.choice(_SETS)), Regular(rng.choice(_REGULAR)), rare)
    )


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
            case Graph(_, edges, final):
                here, path = 0, []
                while (here != final or rng.random() < 0.3) and len(path) < 5:
                    ways = [(item, target) for source, item, target in edges if source == here]
                    if not ways:
                        break
                    item, here = rng.choice(ways)
                    path.append(item)
                pending.extend(reversed(path))
            case Repeat(item, minimum, maximum):
                pending.extend([item] * rng.randint(minimum, max(minimum, minimum + 2 if maximum is None else maximum)))
    return bytes(out)


def random_vocabulary(rng: Random, longest: int = 100, more: int = 0) -> Vocabulary:
    """Tokens with duplicates, prefixes of each other, halves of characters, gaps, specials, and any width."""
    pieces = [b"a", b"b", b"\xff", "é".encode(), "😀".encode(), b"\xc3", b"\xa9", b"\xf0\x9f", b"\x98\x80", b"x"]
    tokens: list[bytes | None] = [b"a", b"b", b"\xff", b"\xc3", b"\xa9", "é".encode()]
    for _ in range(more + rng.choice((0, 10, 20, 40))):
        tokens.append(b"".join(rng.choice(pieces) for _ in range(rng.choice((1, 2, 2, 3, 3, 4, 6)))))
    for _ in range(rng.randint(0, 4)):
        tokens.insert(rng.randrange(len(tokens)), rng.choice([None, b"", b"a", b"ab"]))
    if rng.random() < 0.3:
        tokens.append(b"ab" * rng.randint(8, 20))
    tokens = [token for token in tokens if len(token or b"") <= longest]
    rng.shuffle(tokens)
    size = len(tokens)
    width = rng.choice([size, size, size + rng.randint(1, 70), max(1, size - rng.randint(1, 5))])
    below = min(size, width)
    stops = rng.sample(range(below), rng.randint(0, min(2, below)))
    specials = rng.sample(range(size), rng.randint(0, 3))
    return Vocabulary(tokens, special_token_ids=specials, stop_token_ids=stops, width=width)
