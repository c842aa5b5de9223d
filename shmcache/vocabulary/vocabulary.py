"""The vocabulary of one model: what bytes each token id stands for, and which ids are not text.

Owns the id-ordered token bytes, the special and stop ids, the width of the mask and the fingerprint of all of it. Must
never know a grammar, nor any tokenizer library: the adapters beside this file turn those into a vocabulary.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from shmcache.errors import LimitError, SegmentError
from shmcache.limits import TOKEN_BYTES_MAX, TOKEN_COUNT_MAX, VOCABULARY_BYTES_MAX
from shmcache.vocabulary.sections import Readable, pack_sections, unpack_sections
from shmcache.vocabulary.trie import Trie

_MAGIC = b"SHMCvoc\0"
_VERSION = 1
_DTYPES = (np.int64, np.uint8, np.uint8, np.int64, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class FlatTokens:
    """All token bytes in one array: token ``i`` is ``blob[offsets[i]:offsets[i + 1]]``. Both arrays are read-only."""

    offsets: npt.NDArray[np.int64]
    """int64 (size + 1)."""
    blob: npt.NDArray[np.uint8]
    """uint8 (sum of the lengths)."""


class Vocabulary:
    """Token bytes by id. Immutable; two vocabularies are equal when their fingerprints are.

    ``tokens[i]`` are the bytes of id ``i``; ``None`` is an id the tokenizer does not use. ``special_token_ids`` never
    stand for text; ``stop_token_ids`` end a generation and are special too. ``width`` is the model's ``vocab_size``,
    the number of bits in a mask, which may be larger or smaller than ``len(tokens)`` (the default).

    Raises :class:`LimitError` for a vocabulary that is too large and ``ValueError`` for ids out of range.
    """

    __slots__ = (
        "__weakref__",
        "_data",
        "_find_trie",
        "_fingerprint",
        "_flat",
        "_is_gap",
        "_is_special",
        "_remembered_trie",
        "_special_token_ids",
        "_stop_token_ids",
        "_trie",
        "_width",
    )

    def __init__(
        self,
        tokens: Sequence[bytes | None],
        special_token_ids: Iterable[int] = (),
        stop_token_ids: Iterable[int] = (),
        width: int | None = None,
    ) -> None:
        _check_limit("tokens", len(tokens), TOKEN_COUNT_MAX)
        for token_id, token in enumerate(tokens):
            if token is not None and not isinstance(token, bytes):
                raise TypeError(f"token {token_id} is {type(token).__name__}, expected bytes or None")
        lengths = np.fromiter((len(token or b"") for token in tokens), dtype=np.int64, count=len(tokens))
        offsets = np.zeros(len(tokens) + 1, dtype=np.int64)
        np.cumsum(lengths, out=offsets[1:])
        self._fill(
            offsets,
            b"".join(token or b"" for token in tokens),
            np.fromiter((token is None for token in tokens), dtype=np.bool_, count=len(tokens)),
            {int(token_id) for token_id in special_token_ids},
            {int(token_id) for token_id in stop_token_ids},
            len(tokens) if width is None else int(width),
        )

    def _fill(
        self,
        offsets: npt.NDArray[np.int64],
        data: bytes,
        is_gap: npt.NDArray[np.bool_],
        special: set[int],
        stop: set[int],
        width: int,
    ) -> None:
        size = len(is_gap)
        _check_limit("token_bytes", int(np.diff(offsets).max(initial=0)), TOKEN_BYTES_MAX)
        _check_limit("vocabulary_bytes", len(data), VOCABULARY_BYTES_MAX)
        _check_limit("width", width, TOKEN_COUNT_MAX)
        if width < 1:
            raise ValueError(f"width is {width}, expected at least 1")
        special = special | stop
        for token_id in special:
            if not 0 <= token_id < size:
                raise ValueError(f"special token id {token_id} is outside 0..{size - 1}")
        for token_id in stop:
            # A mask has no bit for it, so the generation could never end with it.
            if token_id >= width:
                raise ValueError(f"stop token id {token_id} is not below the width {width}")
        self._special_token_ids = tuple(sorted(special))
        self._stop_token_ids = tuple(sorted(stop))
        self._is_special = np.zeros(size, dtype=np.bool_)
        self._is_special[list(self._special_token_ids)] = True
        self._is_gap = is_gap
        self._width = width
        offsets.setflags(write=False)
        self._flat = FlatTokens(offsets, np.frombuffer(data, dtype=np.uint8))
        self._data = data
        self._fingerprint: bytes | None = None
        self._trie: Trie | None = None
        self._find_trie: Callable[[], Trie | None] | None = None
        self._remembered_trie: Callable[[], Trie | None] | None = None

    @classmethod
    def from_mistral(
        cls, tokenizer: Any = None, *, stop_token_ids: Iterable[int] | None = None, width: int | None = None
    ) -> Vocabulary:
        """From mistral-common; see :func:`shmcache.vocabulary.mistral.from_mistral`."""
        from shmcache.vocabulary.mistral import from_mistral

        return from_mistral(tokenizer, stop_token_ids=stop_token_ids, width=width)

    @classmethod
    def from_huggingface(
        cls, tokenizer: Any, *, stop_token_ids: Iterable[int] | None = None, width: int | None = None
    ) -> Vocabulary:
        """From ``tokenizers`` or ``transformers``; see :func:`shmcache.vocabulary.huggingface.from_huggingface`."""
        from shmcache.vocabulary.huggingface import from_huggingface

        return from_huggingface(tokenizer, stop_token_ids=stop_token_ids, width=width)

    @classmethod
    def from_tiktoken(
        cls, encoding: Any, *, stop_token_ids: Iterable[int] | None = None, width: int | None = None
    ) -> Vocabulary:
        """From a ``tiktoken.Encoding``; see :func:`shmcache.vocabulary.tiktoken.from_tiktoken`."""
        from shmcache.vocabulary.tiktoken import from_tiktoken

        return from_tiktoken(encoding, stop_token_ids=stop_token_ids, width=width)

    @classmethod
    def from_sentencepiece(
        cls, processor: Any, *, stop_token_ids: Iterable[int] | None = None, width: int | None = None
    ) -> Vocabulary:
        """From a SentencePiece model; see :func:`shmcache.vocabulary.sentencepiece.from_sentencepiece`."""
        from shmcache.vocabulary.sentencepiece import from_sentencepiece

        return from_sentencepiece(processor, stop_token_ids=stop_token_ids, width=width)

    @classmethod
    def from_bytes(cls, data: Readable) -> Vocabulary:
        """The vocabulary that :meth:`to_bytes` wrote, copied out of ``data``. Raises :class:`SegmentError`."""
        words, arrays = unpack_sections(data, _MAGIC, _VERSION, 2, _DTYPES)
        size, width = words
        offsets, blob, gaps, special, stop = (array.copy() for array in arrays)
        if not (size <= TOKEN_COUNT_MAX and len(offsets) == size + 1 and len(gaps) == size):
            raise SegmentError("the arrays of the vocabulary do not fit its size")
        if offsets[0] != 0 or offsets[-1] != len(blob) or (np.diff(offsets) < 0).any():
            raise SegmentError("the token offsets of the vocabulary do not fit its bytes")
        if (gaps > 1).any():
            raise SegmentError("the gaps of the vocabulary are not flags")
        vocabulary = cls.__new__(cls)
        try:
            vocabulary._fill(
                offsets, blob.tobytes(), gaps.astype(np.bool_), set(special.tolist()), set(stop.tolist()), width
            )
        except (LimitError, ValueError) as error:
            raise SegmentError(f"the vocabulary is not valid: {error}") from error
        return vocabulary

    def to_bytes(self) -> bytes:
        """The whole vocabulary (without its trie) as one checksummed byte string; :meth:`from_bytes` restores it."""
        return pack_sections(
            _MAGIC,
            _VERSION,
            (self.size, self._width),
            (
                self._flat.offsets,
                self._flat.blob,
                self._is_gap.astype(np.uint8),
                np.array(self._special_token_ids, dtype=np.int64),
                np.array(self._stop_token_ids, dtype=np.int64),
            ),
        )

    @property
    def size(self) -> int:
        """Number of ids of the tokenizer, gaps included."""
        return len(self._is_gap)

    @property
    def width(self) -> int:
        """Number of bits in a mask: the model's ``vocab_size``."""
        return self._width

    @property
    def special_token_ids(self) -> tuple[int, ...]:
        """Ids that never stand for text, ascending; the stop ids are among them."""
        return self._special_token_ids

    @property
    def stop_token_ids(self) -> tuple[int, ...]:
        """Ids that end a generation, ascending; all are below the width."""
        return self._stop_token_ids

    @property
    def flat(self) -> FlatTokens:
        """All token bytes as two arrays."""
        return self._flat

    @property
    def fingerprint(self) -> bytes:
        """32 bytes of blake2b over token bytes, gaps, special and stop ids, and width."""
        if self._fingerprint is None:
            self._fingerprint = hashlib.blake2b(self.to_bytes(), digest_size=32, person=b"shmcache voc").digest()
        return self._fingerprint

    @property
    def trie(self) -> Trie:
        """The trie of the text tokens; found or built at the first use unless one was attached."""
        for find in (self._find_trie, self._remembered_trie):
            if self._trie is None and find is not None and (found := find()) is not None:
                self.attach_trie(found)
        if self._trie is None:
            self._trie = Trie.build(self)
        return self._trie

    def look_for_trie(self, find: Callable[[], Trie | None]) -> None:
        """Has ``find`` asked at the first use of the trie, instead of building one at once; it may answer None."""
        self._find_trie = find

    def remember_trie(self, find: Callable[[], Trie | None]) -> None:
        """Has ``find`` asked when the other one does not know, for a trie that lies in a file say."""
        self._remembered_trie = find

    def attach_trie(self, trie: Trie) -> None:
        """Makes ``trie``, from shared memory say, this vocabulary's. Raises :class:`SegmentError` for another's."""
        if trie.fingerprint != self.fingerprint:
            raise SegmentError("the trie was built for another vocabulary")
        self._trie = trie

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes of ``token_id``; empty for a gap. Raises ``IndexError`` outside 0..size-1."""
        if not 0 <= token_id < self.size:
            raise IndexError(f"token id {token_id} is outside 0..{self.size - 1}")
        offsets = self._flat.offsets
        return self._data[offsets[token_id] : offsets[token_id + 1]]

    def is_gap(self, token_id: int) -> bool:
        """Whether the tokenizer does not use ``token_id``; true for every id outside 0..size-1."""
        return not 0 <= token_id < self.size or bool(self._is_gap[token_id])

    def is_text(self, token_id: int) -> bool:
        """Whether ``token_id`` stands for text a grammar can accept: not special, not empty, below the width."""
        if not 0 <= token_id < min(self.size, self._width):
            return False
        offsets = self._flat.offsets
        return not self._is_special[token_id] and bool(offsets[token_id] < offsets[token_id + 1])

    def text_token_ids(self) -> npt.NDArray[np.int64]:
        """Every id for which :meth:`is_text` holds, ascending, int64."""
        is_text = (np.diff(self._flat.offsets) > 0) & ~self._is_special
        ids: npt.NDArray[np.int64] = np.flatnonzero(is_text[: self._width])
        return ids

    def __len__(self) -> int:
        return self.size

    def __eq__(self, other: object) -> bool:
        return self.fingerprint == other.fingerprint if isinstance(other, Vocabulary) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __repr__(self) -> str:
        return f"<Vocabulary of {self.size} ids, width {self._width}, {self.fingerprint.hex()[:12]}>"


def _check_limit(limit: str, value: int, value_max: int) -> None:
    if value > value_max:
        raise LimitError(f"the vocabulary exceeds {limit}: {value} > {value_max}", limit=limit, value=value_max)
