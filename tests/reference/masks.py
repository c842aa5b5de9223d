"""The slow, obvious twin of a mask: every token asked for by itself, of the grammar as it was written.

Owns the definition of what a matcher allows. Must never share code with the compiler or the matcher.
"""

from __future__ import annotations

from typing import Any

from shmcache.grammar.ir import Grammar
from shmcache.vocabulary.vocabulary import Vocabulary
from tests.reference.grammar_recogniser import is_viable_prefix, recognises
from tests.reference.rows import text_tokens


def reference_mask(tested: Grammar, vocabulary: Vocabulary, text: bytes, stop_ids: set[int]) -> set[int]:
    """Ids allowed behind ``text``: tokens with which it still begins a member, and stop tokens where it is one."""
    viable: dict[bytes, bool] = {}
    allowed = set()
    for number, token in text_tokens(vocabulary).items():
        if token not in viable:
            viable[token] = is_viable_prefix(tested, text + token)
        if viable[token] and number not in stop_ids:
            allowed.add(number)
    return allowed | (stop_ids if recognises(tested, text) else set())


def reference_jump(tested: Grammar, text: bytes, length_max: int = 64) -> bytes:
    """The bytes that must follow ``text``; at most ``length_max``."""
    forced = b""
    while len(forced) < length_max and not recognises(tested, text + forced):
        ways = [byte for byte in range(256) if is_viable_prefix(tested, text + forced + bytes([byte]))]
        if len(ways) != 1:
            break
        forced += bytes(ways)
    return forced


def mask_bits(row: Any) -> set[int]:
    """The ids whose bits are set in one row of a bitmask."""
    return {32 * word + bit for word, value in enumerate(row.tolist()) for bit in range(32) if value >> bit & 1}
