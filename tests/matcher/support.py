"""Grammars compiled as the compiler does it, without the text they came from."""

from __future__ import annotations

import numpy as np

from shmcache.automaton.build import build_automaton
from shmcache.errors import LimitError, SourceError
from shmcache.grammar.ir import Grammar
from shmcache.image.image import Image, open_image, write_image
from shmcache.limits import Budget
from shmcache.matcher.compiled_grammar import CompiledGrammar
from shmcache.matcher.matcher import GrammarMatcher
from shmcache.rows.build import build_rows
from shmcache.vocabulary.vocabulary import Vocabulary
from tests.reference.masks import mask_bits


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
