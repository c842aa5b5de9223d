"""What matchers need to know of a vocabulary, worked out once per process.

Owns the look-up from a vocabulary to its flat tokens and its mask of text tokens. Must never know a grammar.
"""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from shmcache.array_types import Int32Array
from shmcache.matcher.bitmask import word_count
from shmcache.rows.row_table import bitmask_of
from shmcache.vocabulary.vocabulary import FlatTokens, Vocabulary


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class TokenTable:
    """The tokens of one vocabulary as kernels and matchers read them."""

    flat: FlatTokens
    is_text: npt.NDArray[np.bool_]
    """bool (size): whether the id is a text token within the width."""
    text_bitmask: Int32Array
    """int32 (ceil(width / 32)): the bits of all text tokens."""
    longest_token_bytes: int
    has_bytes: npt.NDArray[np.bool_]
    """bool (size): whether the id is within the width and stands for some bytes, special or not."""
    bytes_bitmask: Int32Array
    """int32 (ceil(width / 32)): the bits of these."""

    @staticmethod
    def of(vocabulary: Vocabulary) -> TokenTable:
        """The table of ``vocabulary``; made at the first call and kept as long as the vocabulary."""
        table = _tables.get(vocabulary)
        if table is None:
            text = vocabulary.text_token_ids()
            lengths = np.diff(vocabulary.flat.offsets)
            has_bytes = lengths > 0
            has_bytes[vocabulary.width :] = False
            is_text = np.zeros(vocabulary.size, dtype=np.bool_)
            is_text[text] = True
            table = TokenTable(
                flat=vocabulary.flat,
                is_text=is_text,
                text_bitmask=bitmask_of(text, word_count(vocabulary.width)),
                longest_token_bytes=int(lengths.max(initial=1)),
                has_bytes=has_bytes,
                bytes_bitmask=bitmask_of(np.flatnonzero(has_bytes), word_count(vocabulary.width)),
            )
            _tables[vocabulary] = table
        return table


_tables: WeakKeyDictionary[Vocabulary, TokenTable] = WeakKeyDictionary()
