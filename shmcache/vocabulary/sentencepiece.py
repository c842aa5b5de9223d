"""Vocabularies of SentencePiece models.

Owns the reading of a ``SentencePieceProcessor``. Must never know a grammar.
"""

from __future__ import annotations

from collections.abc import Iterable
from os import PathLike
from pathlib import Path
from typing import Any

from shmcache.errors import SourceError
from shmcache.vocabulary.adapter import import_library
from shmcache.vocabulary.vocabulary import Vocabulary

_SPACE_SYMBOL = "\u2581"


def from_sentencepiece(
    processor: Any, *, stop_token_ids: Iterable[int] | None = None, width: int | None = None
) -> Vocabulary:
    """The vocabulary of ``processor``: a ``SentencePieceProcessor`` or the path of a model file.

    Byte pieces stand for their byte, and the space symbol U+2581 for a space, so a model that adds a dummy prefix
    yields the encoded text with one leading space. Control, unknown and unused pieces are special. ``stop_token_ids``
    defaults to the model's end-of-sentence piece, ``width`` to the number of pieces. Raises ``ImportError`` naming the
    extra when the library is missing, and :class:`SourceError` for a file that is not a model.
    """
    if isinstance(processor, str | PathLike):
        processor = _load(Path(processor))
    tokens: list[bytes] = []
    special: list[int] = []
    for token_id in range(processor.get_piece_size()):
        piece = processor.id_to_piece(token_id)
        if processor.is_byte(token_id):
            tokens.append(bytes([int(piece[3:5], 16)]))
            continue
        is_special = processor.is_control(token_id) or processor.is_unknown(token_id) or processor.is_unused(token_id)
        if is_special:
            special.append(token_id)
        tokens.append((piece if is_special else piece.replace(_SPACE_SYMBOL, " ")).encode())
    if stop_token_ids is None:
        # A model without the piece answers -1.
        stop_token_ids = [processor.eos_id()] if processor.eos_id() >= 0 else []
    return Vocabulary(tokens, special, stop_token_ids, width)


def _load(path: Path) -> Any:
    library = import_library("sentencepiece", extra="sentencepiece")
    # Read here, because the library's error does not tell a missing file from a bad one.
    model = path.read_bytes()
    try:
        if not model:
            raise RuntimeError("the file is empty")
        return library.SentencePieceProcessor(model_proto=model)
    except RuntimeError as error:
        raise SourceError(f"{path.name} is not a SentencePiece model: {error}") from error
