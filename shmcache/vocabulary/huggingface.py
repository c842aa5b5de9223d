"""Vocabularies of Hugging Face ``tokenizers`` and of the tokenizers of ``transformers``; the slow ones lie beside.

Owns the translation of a tokenizer's decoder into bytes per token. Must never know a grammar.

A token's bytes are what it adds to decoded text, so the decoder decides: byte-level decoders spell every byte as one
printable character, SentencePiece-style ones spell a space as U+2581 and a lone byte as ``<0xHH>``. A decoder whose
output depends on a token's neighbours gives a token no bytes of its own and is refused. What a decoder strips at the
edge of a text is kept: such a tokenizer's text begins with one space.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

from shmcache.errors import SourceError, UnsupportedError
from shmcache.vocabulary.adapter import import_library, known_stop_token_ids
from shmcache.vocabulary.byte_level import byte_level_bytes
from shmcache.vocabulary.slow_tokenizers import from_slow_tokenizer, is_slow_tokenizer
from shmcache.vocabulary.vocabulary import Vocabulary

Spelling = str | bytes
Step = Callable[[Spelling], Spelling]

_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")


def from_huggingface(
    tokenizer: Any, *, stop_token_ids: Iterable[int] | None = None, width: int | None = None
) -> Vocabulary:
    """The vocabulary of ``tokenizer``: a ``tokenizers.Tokenizer``, a tokenizer of ``transformers``, fast or slow, or
    the path of a ``tokenizer.json``.

    Added tokens marked special, the unknown token, and whatever ``transformers`` calls special never stand for text;
    other added tokens do. ``stop_token_ids`` defaults to the ``eos_token_id`` of a ``transformers`` tokenizer, and else
    to the special tokens whose text is known to end a generation; ``width`` to the highest id plus one. Raises
    ``ImportError`` naming the extra when the library is missing, :class:`SourceError` for a file that is not a
    tokenizer, and :class:`UnsupportedError` for one whose tokens have no bytes of their own.
    """
    special_ids: set[int] = set()
    if isinstance(tokenizer, str | PathLike):
        tokenizer = _load(Path(tokenizer))
    elif hasattr(tokenizer, "backend_tokenizer"):
        special_ids.update(tokenizer.all_special_ids)
        if stop_token_ids is None and tokenizer.eos_token_id is not None:
            stop_token_ids = [tokenizer.eos_token_id]
        tokenizer = tokenizer.backend_tokenizer
    elif is_slow_tokenizer(tokenizer):
        return from_slow_tokenizer(tokenizer, stop_token_ids=stop_token_ids, width=width)
    if not hasattr(tokenizer, "get_added_tokens_decoder"):
        raise TypeError(f"{type(tokenizer).__name__} is neither a tokenizers.Tokenizer nor a tokenizer of transformers")

    ids_by_text: dict[str, int] = tokenizer.get_vocab(with_added_tokens=True)
    special_ids.update(i for i, added in tokenizer.get_added_tokens_decoder().items() if added.special)
    unknown = getattr(tokenizer.model, "unk_token", None)
    if unknown in ids_by_text:
        special_ids.add(ids_by_text[unknown])

    steps = _decoder_steps(tokenizer)
    tokens: list[bytes | None] = [None] * (max(ids_by_text.values(), default=-1) + 1)
    special: dict[str, int] = {}
    for text, token_id in ids_by_text.items():
        if token_id in special_ids:
            special[text] = token_id
            tokens[token_id] = text.encode()
        else:
            tokens[token_id] = _spell(text, steps)
    stop = known_stop_token_ids(special) if stop_token_ids is None else stop_token_ids
    return Vocabulary(tokens, special.values(), stop, width)


def _load(path: Path) -> Any:
    library = import_library("tokenizers", extra="huggingface")
    # Read here, because the library's error does not tell a missing file from a bad one.
    document = path.read_bytes()
    try:
        return library.Tokenizer.from_str(document.decode())
    except Exception as error:  # the library raises nothing more specific
        raise SourceError(f"{path.name} is not a tokenizer.json: {error}") from error


def _decoder_steps(tokenizer: Any) -> list[Step]:
    """What the tokenizer's decoder does to the spelling of one token, in order."""
    decoder, pre_tokenizer = _description(tokenizer.decoder), _description(tokenizer.pre_tokenizer)
    if not decoder and any(part["type"] == "ByteLevel" for part in pre_tokenizer):
        return [_from_byte_level]
    if not decoder:
        raise UnsupportedError(
            "the tokenizer has no decoder, so its tokens have no bytes: set one, or give their bytes to Vocabulary()",
            feature="tokenizer without decoder",
        )
    steps: list[Step] = []
    is_fused = False
    for part in decoder:
        kind = part["type"]
        if kind == "ByteLevel":
            steps.append(_from_byte_level)
        elif kind == "ByteFallback":
            steps.append(_from_byte_token)
        elif kind == "Metaspace":
            steps.append(partial(_replace, old=part["replacement"], new=" "))
        elif kind == "Replace" and "String" in part["pattern"]:
            steps.append(partial(_replace, old=part["pattern"]["String"], new=part["content"]))
        elif kind == "Strip":
            # After Fuse it sees the whole text and takes the leading space off it, which no token does.
            if not is_fused:
                steps.append(partial(_strip, content=part["content"], start=part["start"], stop=part["stop"]))
        elif kind == "Fuse":
            is_fused = True
        else:
            raise UnsupportedError(
                f"the tokenizer's decoder {kind} gives a token no bytes of its own", feature=f"decoder {kind}"
            )
    return steps


def _description(component: Any) -> list[dict[str, Any]]:
    """A decoder or pre-tokenizer as the plain parts of which it is a sequence; none when there is no component."""
    if component is None:
        return []
    part = json.loads(component.__getstate__())
    if part["type"] != "Sequence":
        return [part]
    parts: list[dict[str, Any]] = part.get("decoders") or part.get("pretokenizers") or []
    return parts


def _spell(text: str, steps: list[Step]) -> bytes:
    spelling: Spelling = text
    for step in steps:
        spelling = step(spelling)
    return spelling if isinstance(spelling, bytes) else spelling.encode()


def _from_byte_level(spelling: Spelling) -> Spelling:
    return spelling if isinstance(spelling, bytes) else byte_level_bytes(spelling)


def _from_byte_token(spelling: Spelling) -> Spelling:
    match = _BYTE_TOKEN.fullmatch(spelling) if isinstance(spelling, str) else None
    return spelling if match is None else bytes([int(match[1], 16)])


def _replace(spelling: Spelling, *, old: str, new: str) -> Spelling:
    return spelling.replace(old, new) if isinstance(spelling, str) else spelling


def _strip(spelling: Spelling, *, content: str, start: int, stop: int) -> Spelling:
    """At most ``start`` leading and ``stop`` trailing ``content`` characters taken off."""
    if isinstance(spelling, bytes):
        return spelling
    for _ in range(start):
        spelling = spelling.removeprefix(content)
    for _ in range(stop):
        spelling = spelling.removesuffix(content)
    return spelling
