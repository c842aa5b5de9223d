"""Vocabularies of mistral-common tokenizers: Tekken, and the SentencePiece models that came before it.

Owns the Tekken file format and the reading of mistral-common's tokenizer objects. Must never know a grammar. A Tekken
file is read directly: building mistral-common's own tokenizer from it takes several times as long and adds nothing.
"""

from __future__ import annotations

import base64
import binascii
import importlib.util
import json
from collections.abc import Iterable
from os import PathLike
from pathlib import Path
from typing import Any

from shmcache.errors import SourceError
from shmcache.limits import TOKEN_COUNT_MAX
from shmcache.vocabulary.adapter import import_library, known_stop_token_ids
from shmcache.vocabulary.remembered import remembered
from shmcache.vocabulary.sentencepiece import from_sentencepiece
from shmcache.vocabulary.vocabulary import Vocabulary

_PACKAGED_TEKKEN = "tekken_240911.json"

_UNLISTED_SPECIAL_TOKENS = [
    *("<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]"),
    *("[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[TOOL_CALLS]", "[IMG]", "<pad>", "[IMG_BREAK]", "[IMG_END]"),
    *("[PREFIX]", "[MIDDLE]", "[SUFFIX]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[TOOL_CONTENT]"),
]
"""Special tokens, in id order, of Tekken files up to version 7, which do not list them."""


def from_mistral(
    tokenizer: Any = None, *, stop_token_ids: Iterable[int] | None = None, width: int | None = None
) -> Vocabulary:
    """The vocabulary of ``tokenizer``: a ``MistralTokenizer``, the ``Tekkenizer`` or ``SentencePieceTokenizer`` inside
    one, the path of a ``tekken.json`` or of a SentencePiece model, or None for the Tekken vocabulary of 131,072 tokens
    that the mistral-common package ships.

    Tekken ids start with the special tokens; token bytes follow in rank order. ``stop_token_ids`` defaults to ``</s>``,
    ``width`` to the number of ids. Raises ``ImportError`` naming the extra when a library is missing, and
    :class:`SourceError` for a file that is not a Tekken vocabulary.
    """
    if tokenizer is None:
        tokenizer = _packaged_file(_PACKAGED_TEKKEN)
    if isinstance(tokenizer, str | PathLike):
        path = Path(tokenizer)
        if path.suffix != ".json":
            return from_sentencepiece(path, stop_token_ids=stop_token_ids, width=width)
        data = path.read_bytes()
        stop = None if stop_token_ids is None else tuple(map(int, stop_token_ids))
        return remembered("tekken", data, (stop, width), lambda: _tekken(_read_tekken(path.name, data), stop, width))
    tokenizer = getattr(getattr(tokenizer, "instruct_tokenizer", tokenizer), "tokenizer", tokenizer)
    if not hasattr(tokenizer, "id_to_byte_piece"):
        if not hasattr(tokenizer, "file_path"):
            raise TypeError(f"{type(tokenizer).__name__} is not a tokenizer of mistral-common")
        return from_sentencepiece(tokenizer.file_path, stop_token_ids=stop_token_ids, width=width)
    return _tekken(_tekkenizer_tokens(tokenizer), stop_token_ids, width)


def _tekken(
    read: tuple[list[bytes], dict[str, int]], stop_token_ids: Iterable[int] | None, width: int | None
) -> Vocabulary:
    """The vocabulary of what was read: token bytes by id, and the ids of the special tokens."""
    tokens, special = read
    stop = known_stop_token_ids(special) if stop_token_ids is None else stop_token_ids
    return Vocabulary(tokens, special.values(), stop, width)


def _packaged_file(name: str) -> Path:
    """A data file of the installed mistral-common, found without importing it."""
    spec = importlib.util.find_spec("mistral_common")
    if spec is None:
        import_library("mistral_common", extra="mistral")
    locations = spec.submodule_search_locations if spec is not None else None
    for location in locations or ():
        path = Path(location) / "data" / name
        if path.is_file():
            return path
    raise FileNotFoundError(f"the installed mistral-common does not ship {name}; give the path of a tekken.json")


def _tekkenizer_tokens(tekkenizer: Any) -> tuple[list[bytes], dict[str, int]]:
    special = {tekkenizer.id_to_piece(token_id): token_id for token_id in sorted(tekkenizer.special_ids)}
    tokens = [tekkenizer.id_to_byte_piece(token_id) for token_id in range(tekkenizer.n_words)]
    for text, token_id in special.items():
        tokens[token_id] = text.encode()
    return tokens, special


def _read_tekken(name: str, data: bytes) -> tuple[list[bytes], dict[str, int]]:
    """Token bytes by id and the ids of the special tokens of a ``tekken.json``."""
    try:
        document = json.loads(data)
        config = document["config"]
        size = int(config["default_vocab_size"])
        special_count = int(config["default_num_special_tokens"])
        if not 0 <= special_count <= size <= TOKEN_COUNT_MAX:
            raise ValueError(f"{special_count} special tokens of {size}")
        special = _special_tokens(document.get("special_tokens"), special_count)
        ranked = document["vocab"][: size - special_count]
        if [entry["rank"] for entry in ranked] != list(range(size - special_count)):
            raise ValueError("the ranks are not 0, 1, 2, ...")
        text_tokens = [base64.b64decode(entry["token_bytes"], validate=True) for entry in ranked]
    except (KeyError, TypeError, AttributeError, ValueError, binascii.Error, RecursionError) as error:
        raise SourceError(f"{name} is not a Tekken vocabulary: {error!r}") from error
    return [text.encode() for text in special] + text_tokens, special


def _special_tokens(listed: list[dict[str, Any]] | None, count: int) -> dict[str, int]:
    """Text to id for ids 0..count-1; ids that the file does not name get the name mistral-common gives them."""
    if listed is None:
        names = dict(enumerate(_UNLISTED_SPECIAL_TOKENS[:count]))
    else:
        names = {int(entry["rank"]): str(entry["token_str"]) for entry in listed}
    special = {names.get(token_id, f"<SPECIAL_{token_id}>"): token_id for token_id in range(count)}
    if len(special) != count or not names.keys() <= set(range(count)):
        raise ValueError("the special tokens are not unique, or out of range")
    return special
