"""The slow, obvious twin of whole tokens: each is spelt as bytes that no other text has, and nothing else is new.

Owns the readings of a sequence of tokens: every token is read as its bytes, or as a whole. Must never share code with
the compiler or the matcher.
"""

from __future__ import annotations

from random import Random

from shmcache.grammar.ir import (
    EMPTY,
    Choice,
    Expression,
    Grammar,
    Graph,
    Literal,
    Metered,
    Regular,
    Repeat,
    Sequence,
    Tokens,
)
from shmcache.limits import Budget
from shmcache.regular.code_points import CodePoints
from shmcache.regular.dfa import Dfa
from shmcache.regular.encode import encode_utf8
from shmcache.regular.operations import everything, words
from shmcache.vocabulary.vocabulary import Vocabulary
from tests.reference.grammar_recogniser import is_viable_prefix, recognises
from tests.reference.rows import text_tokens

MARK = b"\xfe"
"""Begins a whole token; no UTF-8 has this byte, and no token of a test may."""

_METERED = [
    encode_utf8(everything(CodePoints.of("ab")), Budget()),
    encode_utf8(words(["ab", "abé", "b", "bab", ""], Budget()), Budget()),
    encode_utf8(everything(CodePoints.of("aé😀")), Budget()),
]


def spelt(token_id: int) -> bytes:
    """The bytes that stand for a whole token."""
    return MARK + token_id.to_bytes(2, "big")


def as_bytes(grammar: Grammar, vocabulary: Vocabulary) -> Grammar:
    """The grammar with whole tokens as their spelling."""
    rules = {name: _spelt_out(expression, vocabulary) for name, expression in grammar.rules.items()}
    return Grammar(rules, grammar.root, grammar.shared_rules)


def _spelt_out(expression: Expression, vocabulary: Vocabulary) -> Expression:
    match expression:
        case Tokens():
            return Choice(tuple(Literal(spelt(number)) for number in sorted(members(expression, vocabulary))))
        case Metered(automaton, tokens_max):
            return _metered(automaton, tokens_max, vocabulary)
        case Sequence(items):
            return Sequence(tuple(_spelt_out(item, vocabulary) for item in items))
        case Choice(options):
            return Choice(tuple(_spelt_out(option, vocabulary) for option in options))
        case Repeat(item, minimum, maximum):
            return Repeat(_spelt_out(item, vocabulary), minimum, maximum)
        case Graph(states, edges, final):
            return Graph(states, tuple((a, _spelt_out(item, vocabulary), b) for a, item, b in edges), final)
        case _:
            return expression


def members(tokens: Tokens, vocabulary: Vocabulary) -> set[int]:
    """The ids of the set."""
    usable = {number for number in range(min(vocabulary.size, vocabulary.width)) if vocabulary.token_bytes(number)}
    named = {
        number
        for number in usable
        if number in tokens.names or any(vocabulary.token_bytes(number) == name.encode() for name in texts_of(tokens))
    }
    return usable - named if tokens.is_excluded else named


def texts_of(tokens: Tokens) -> list[str]:
    """The names that are texts."""
    return [name for name in tokens.names if isinstance(name, str)]


def _metered(automaton: Dfa, tokens_max: int, vocabulary: Vocabulary) -> Expression:
    """All ways, token by token."""
    width = automaton.state_count
    final = width * (tokens_max + 1)
    edges: list[tuple[int, Expression, int]] = []
    for count in range(tokens_max + 1):
        for state in range(width):
            if automaton.accepting[state]:
                edges.append((count * width + state, EMPTY, final))
            for number, token in text_tokens(vocabulary).items():
                here = state
                for byte in token:
                    here = automaton.target(here, byte) if here >= 0 else -1
                if here >= 0 and count < tokens_max:
                    edges.append((count * width + state, Literal(spelt(number)), (count + 1) * width + here))
    return Graph(final + 1, tuple(edges), final)


class Readings:
    """The ways to read the tokens so far with which they begin a member."""

    def __init__(self, grammar: Grammar, vocabulary: Vocabulary, texts: frozenset[bytes] = frozenset({b""})) -> None:
        self.grammar = grammar
        self.vocabulary = vocabulary
        self.texts = texts

    @staticmethod
    def of(grammar: Grammar, vocabulary: Vocabulary) -> Readings:
        """Before any token."""
        return Readings(as_bytes(grammar, vocabulary), vocabulary)

    def after(self, token_id: int) -> Readings:
        """With one token more."""
        pieces = []
        if 0 <= token_id < min(self.vocabulary.size, self.vocabulary.width):
            pieces = [spelt(token_id)] * bool(self.vocabulary.token_bytes(token_id))
            pieces += [self.vocabulary.token_bytes(token_id)] * self.vocabulary.is_text(token_id)
        texts = {text + piece for text in self.texts for piece in pieces}
        viable = frozenset(text for text in texts if is_viable_prefix(self.grammar, text))
        return Readings(self.grammar, self.vocabulary, viable)

    @property
    def ended(self) -> bool:
        """Whether the tokens so far are a member."""
        return any(recognises(self.grammar, text) for text in self.texts)

    def mask(self, stop_ids: set[int]) -> set[int]:
        """The ids that a mask allows here."""
        found = {number for number in range(self.vocabulary.size) if self.after(number).texts} - stop_ids
        return found | (stop_ids if self.ended else set())


def with_random_tokens(rng: Random, grammar: Grammar, vocabulary: Vocabulary) -> Grammar:
    """The grammar with some of its leaves replaced by whole tokens."""
    rules = {name: _sown(rng, expression, vocabulary) for name, expression in grammar.rules.items()}
    return Grammar(rules, grammar.root, grammar.shared_rules)


def _sown(rng: Random, expression: Expression, vocabulary: Vocabulary) -> Expression:
    match expression:
        case Sequence(items):
            return Sequence(tuple(_sown(rng, item, vocabulary) for item in items))
        case Choice(options):
            return Choice(tuple(_sown(rng, option, vocabulary) for option in options))
        case Repeat(item, minimum, maximum):
            return Repeat(_sown(rng, item, vocabulary), minimum, maximum)
        case Graph(states, edges, final):
            return Graph(states, tuple((a, _sown(rng, item, vocabulary), b) for a, item, b in edges), final)
        case Regular(automaton) if any(low <= MARK[0] <= high for row in automaton.edges for low, high, _ in row):
            return Literal(b"a")
        case Literal() | Regular() if rng.random() < 0.4:
            return _random_tokens(rng, vocabulary)
        case _:
            return expression


def _random_tokens(rng: Random, vocabulary: Vocabulary) -> Expression:
    if rng.random() < 0.25:
        return Metered(rng.choice(_METERED), rng.randint(0, 3))
    usable = sorted(members(Tokens((), is_excluded=True), vocabulary))
    names: list[int | str] = []
    for number in rng.sample(usable, min(len(usable), rng.randint(0, 3))):
        try:
            text = vocabulary.token_bytes(number).decode()
        except UnicodeDecodeError:
            text = ""
        names.append(text if text and rng.random() < 0.4 else number)
    return Tokens(tuple(names), is_excluded=rng.random() < 0.3)
