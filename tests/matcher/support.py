"""Grammars compiled as the compiler does it, without the text they came from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest

from shmcache.automaton.build import build_automaton
from shmcache.errors import LimitError, SourceError
from shmcache.grammar.ir import Grammar
from shmcache.image.image import Image, open_image, write_image
from shmcache.limits import Budget
from shmcache.matcher import lazy_rows
from shmcache.matcher.compiled_grammar import CompiledGrammar
from shmcache.matcher.masks import Masks
from shmcache.matcher.matcher import GrammarMatcher
from shmcache.matcher.token_table import TokenTable
from shmcache.matcher.whole_tokens import WholeTokens
from shmcache.rows import rule_walker
from shmcache.rows.build import build_rows
from shmcache.rows.rule_walker import RuleWalker
from shmcache.rows.stacks import StackTable
from shmcache.vocabulary.vocabulary import Vocabulary
from tests.reference.masks import mask_bits
from tests.rows.support import push


def image_bytes(tested: Grammar, vocabulary: Vocabulary) -> bytes:
    """The image of a grammar given as rules."""
    automaton = build_automaton(tested, Budget())
    image = Image(
        key=bytes(range(32)),
        vocabulary_fingerprint=vocabulary.fingerprint,
        vocabulary_size=vocabulary.size,
        width=vocabulary.width,
        automaton=automaton,
        rows=build_rows(automaton, vocabulary, None, Budget()),
        warnings=tested.warnings,
    )
    return write_image(image)


def compiled(tested: Grammar, vocabulary: Vocabulary) -> CompiledGrammar:
    """The compiled grammar, over the very bytes that would lie in shared memory."""
    data = image_bytes(tested, vocabulary)
    return CompiledGrammar(open_image(data), vocabulary, generation=0, memory_size_bytes=len(data))


def compiled_or_none(tested: Grammar, vocabulary: Vocabulary) -> CompiledGrammar | None:
    """The same; None for a random grammar without texts, or too large for the slow twins."""
    try:
        if build_automaton(tested, Budget(states_max=5_000)).state_count > 150:
            return None
        return compiled(tested, vocabulary)
    except (SourceError, LimitError):
        return None


def allowed(matcher: GrammarMatcher, width: int, surplus_words: int = 1) -> set[int]:
    """The ids of the next mask, which is written over random bits; checks that no surplus bit is left."""
    words = -(-width // 32) + surplus_words
    row = np.random.default_rng(1).integers(-(1 << 31), 1 << 31, size=words, dtype=np.int32)
    assert matcher.fill_next_token_bitmask(row)
    bits = mask_bits(row)
    assert all(bit < width for bit in bits)
    return bits


def with_rows_of(image: Image, vocabulary: Vocabulary, rules: Iterable[int]) -> Image:
    """The image with rows of these rules, of all their states that accept something, and of no others."""
    with pytest.MonkeyPatch.context() as patch:
        ahead = np.zeros(image.automaton.rule_count, dtype=np.bool_)
        ahead[list(rules)] = True
        patch.setattr(RuleWalker, "rules_ahead", lambda _: ahead)
        patch.setattr(rule_walker, "_WIDE_PART", 1 << 30)
        return replace(image, rows=build_rows(image.automaton, vocabulary, None, Budget()))


def masks_of_states(image: Image, vocabulary: Vocabulary, states: Iterable[int]) -> tuple[dict[object, bytes], Masks]:
    """The mask of each state behind the empty stack and behind every call of its rule, and what worked them out.

    Special tokens and surplus bits are left out.
    """
    automaton, tokens, stacks = image.automaton, TokenTable.of(vocabulary), StackTable()
    whole = WholeTokens(automaton, tokens) if automaton.has_whole_tokens else None
    masks = Masks(image, vocabulary, tokens, whole, stacks)
    returns: dict[int, dict[int, None]] = {}
    for caller in range(automaton.state_count):
        for rule, return_state in automaton.calls_of(caller):
            if return_state >= 0:
                returns.setdefault(rule, {})[return_state] = None
    found: dict[object, bytes] = {}
    for state in states:
        for return_state in [None, *returns.get(int(automaton.rule_of_state[state]), {})]:
            node = 0 if return_state is None else push(stacks, 0, return_state)
            mask = masks.of(np.array([state], dtype=np.int32), np.array([node], dtype=np.int32))
            row = np.empty(len(tokens.text_bitmask), dtype=np.int32)
            mask.write(row)
            found[state, return_state] = (row & tokens.bytes_bitmask).tobytes()
    return found, masks


@pytest.fixture
def lifted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every state of a rule that is paired with a base is walked beside it, however few tokens that spares."""
    monkeypatch.setattr(rule_walker, "BESIDE_PART", 1 << 30)
    monkeypatch.setattr(lazy_rows, "BESIDE_PART", 1 << 30)
    monkeypatch.setattr(lazy_rows, "_ALIKE_PART", 0)
