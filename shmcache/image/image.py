"""The image of a compiled grammar: how it is written, and how it is opened in place.

Owns the layout: the sections of ``vocabulary/sections.py`` under its own magic, with the key, the vocabulary's
fingerprint and width in front, then the automaton's arrays, the rows' arrays, and the warnings as JSON.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from shmcache.automaton import grammar_automaton
from shmcache.automaton.grammar_automaton import GrammarAutomaton, in_range
from shmcache.errors import LimitError, SegmentError
from shmcache.grammar.ir import Warning as GrammarWarning
from shmcache.limits import IMAGE_BYTES_MAX
from shmcache.rows import row_table
from shmcache.rows.row_table import RowTable
from shmcache.vocabulary.sections import Readable, Sections, find_sections, pack_sections

_MAGIC = b"SHMCimg\0"
LAYOUT_VERSION = 3
_KEY_WORDS = 4
_FINGERPRINT_WORDS = 4
_WORD_COUNT = _KEY_WORDS + _FINGERPRINT_WORDS + 3
_DIGEST = struct.Struct("<4Q")
_AUTOMATON_ARRAYS = len(grammar_automaton.ARRAY_DTYPES)
_DTYPES = (*grammar_automaton.ARRAY_DTYPES, *row_table.ARRAY_DTYPES, np.uint8)


@dataclass(frozen=True, slots=True, eq=False)
class Image:
    """A compiled grammar. Its arrays are views of the bytes it was opened from."""

    key: bytes
    """32 bytes: the digest of the source and the vocabulary."""
    vocabulary_fingerprint: bytes
    """32 bytes."""
    vocabulary_size: int
    width: int
    """Number of mask bits."""
    automaton: GrammarAutomaton
    rows: RowTable
    warnings: tuple[GrammarWarning, ...]


@dataclass(slots=True, eq=False)
class ClosedImage:
    """An image of which only the head was looked at: its checksum is, and its arrays are made, when it is opened.

    Where it is damaged, ``mend``, if there is one, is asked for another image of the same grammar.
    """

    key: bytes
    vocabulary_fingerprint: bytes
    vocabulary_size: int
    width: int
    sections: Sections
    mend: Callable[[SegmentError], Image] | None = None
    _image: Image | None = None

    def open(self) -> Image:
        """The image, in place: no array is copied. Its indexes are not looked at. Raises :class:`SegmentError`."""
        mend = self.mend
        if self._image is None:
            try:
                self._image = self._opened()
            except SegmentError as error:
                if mend is None:
                    raise
                self._image = mend(error)
            self.mend = None
        return self._image

    def _opened(self) -> Image:
        self.sections.check()
        arrays = self.sections.arrays()
        if not all(array.flags.aligned for array in arrays):
            raise SegmentError("the image does not start at a multiple of 8 bytes")
        return Image(
            key=self.key,
            vocabulary_fingerprint=self.vocabulary_fingerprint,
            vocabulary_size=self.vocabulary_size,
            width=self.width,
            automaton=GrammarAutomaton.from_arrays(arrays[:_AUTOMATON_ARRAYS], bool(self.sections.words[-1])),
            rows=RowTable(*arrays[_AUTOMATON_ARRAYS:-1]),
            warnings=_read_warnings(arrays[-1].tobytes()),
        )


def write_image(image: Image) -> bytes:
    """The image as bytes. Raises :class:`LimitError` past IMAGE_BYTES_MAX."""
    _check_bounds(image)
    warnings = json.dumps([[one.feature, one.pointer, one.message] for one in image.warnings]).encode()
    words = (
        *_DIGEST.unpack(image.key),
        *_DIGEST.unpack(image.vocabulary_fingerprint),
        image.vocabulary_size,
        image.width,
        int(image.automaton.root_nullable),
    )
    arrays = (*image.automaton.arrays(), *image.rows.arrays(), np.frombuffer(warnings, dtype=np.uint8))
    size = sum(array.nbytes for array in arrays)
    if size > IMAGE_BYTES_MAX:
        raise LimitError(
            f"the compiled grammar takes {size} bytes, more than {IMAGE_BYTES_MAX}",
            limit="image_bytes",
            value=IMAGE_BYTES_MAX,
        )
    return pack_sections(_MAGIC, LAYOUT_VERSION, words, arrays)


def open_image(buffer: Readable, *, expected_key: bytes | None = None, check_bounds: bool = True) -> Image:
    """The image that :func:`write_image` wrote, in place: no array is copied. ``buffer`` must start at a multiple of 8.

    Checks magic, layout version, length, checksum, and the key where one is expected; raises :class:`SegmentError`
    otherwise. ``check_bounds`` also looks at every index, a third of the time it takes to open an image [m]. It may
    be left out for bytes that only a compile worker can have written: :func:`write_image` has checked them, and the
    checksum says that they are the same.
    """
    image = find_image(buffer, expected_key=expected_key).open()
    if check_bounds:
        _check_bounds(image)
    return image


def find_image(buffer: Readable, *, expected_key: bytes | None = None) -> ClosedImage:
    """The image for which :func:`open_image` without ``check_bounds`` would give the arrays."""
    sections = find_sections(buffer, _MAGIC, LAYOUT_VERSION, _WORD_COUNT, _DTYPES)
    words = sections.words
    key = _DIGEST.pack(*words[:_KEY_WORDS])
    if expected_key is not None and key != expected_key:
        raise SegmentError("the segment holds another grammar than the one asked for")
    fingerprint = _DIGEST.pack(*words[_KEY_WORDS : _KEY_WORDS + _FINGERPRINT_WORDS])
    vocabulary_size, width, _ = words[_KEY_WORDS + _FINGERPRINT_WORDS :]
    return ClosedImage(key, fingerprint, vocabulary_size, width, sections)


def _check_bounds(image: Image) -> None:
    image.automaton.check_bounds()
    token_count = min(image.vocabulary_size, image.width)
    if not in_range(image.automaton.token_set_ids, 0, token_count):
        raise SegmentError("the automaton names a token that the vocabulary does not have")
    image.rows.check_bounds(image.automaton.has_byte_edges(), -(-image.width // 32), token_count)


def _read_warnings(data: bytes) -> tuple[GrammarWarning, ...]:
    try:
        warnings = tuple(GrammarWarning(feature, pointer, message) for feature, pointer, message in json.loads(data))
    except (ValueError, TypeError) as error:
        raise SegmentError("the warnings of the image cannot be read") from error
    if not all(isinstance(part, str) for one in warnings for part in (one.feature, one.pointer, one.message)):
        raise SegmentError("the warnings of the image are not texts")
    return warnings
