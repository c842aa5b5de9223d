"""``TokenizerInfo`` of XGrammar: a vocabulary.

Owns how encoded vocabularies become bytes, and what of a tokenizer XGrammar counts as text. Must never know a grammar.

Special tokens of a tokenizer are text here, spelt as they are written, as in XGrammar: only stop tokens, ids without a
token and empty tokens stand for nothing. :meth:`shmcache.Vocabulary.from_huggingface` keeps special tokens out of text.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Any

from shmcache.compat.xgrammar import serialization
from shmcache.compat.xgrammar.exception import DeserializeFormatError, MisuseError, translated
from shmcache.vocabulary.adapter import known_stop_token_ids
from shmcache.vocabulary.byte_level import byte_level_bytes
from shmcache.vocabulary.vocabulary import Vocabulary

_BYTE_PIECE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_SPACE_SYMBOL = "\u2581"


class VocabType(Enum):
    """How the tokens of an encoded vocabulary are written."""

    RAW = 0
    """As they are."""
    BYTE_FALLBACK = 1
    """A lone byte as ``<0xHH>``, a space as U+2581."""
    BYTE_LEVEL = 2
    """Every byte as one printable character."""


class TokenizerInfo:
    """A vocabulary, and what its tokens were written like. Immutable."""

    def __init__(
        self,
        encoded_vocab: list[bytes] | list[str],
        vocab_type: VocabType = VocabType.RAW,
        *,
        vocab_size: int | None = None,
        stop_token_ids: list[int] | int | None = None,
        add_prefix_space: bool = False,
    ) -> None:
        """``vocab_size`` is the model's, the width of masks: at least the number of tokens, which is the default.

        Without ``stop_token_ids``, tokens are stop tokens whose texts are known to end a generation.
        """
        tokens = [_decoded(token, vocab_type) for token in encoded_vocab]
        width = len(tokens) if vocab_size is None else vocab_size
        if width < len(tokens):
            raise MisuseError(f"vocab_size is {width}, but there are {len(tokens)} tokens")
        if stop_token_ids is None:
            texts = {token.decode("utf-8", "replace"): place for place, token in enumerate(tokens) if token}
            stops = known_stop_token_ids(texts)
        else:
            stops = [stop_token_ids] if isinstance(stop_token_ids, int) else list(stop_token_ids)
        self._fill(tokens, width, stops, vocab_type, add_prefix_space)

    def _fill(
        self, tokens: list[bytes], width: int, stops: Iterable[int], vocab_type: VocabType, add_prefix_space: bool
    ) -> None:
        with translated():
            # A mask has one bit at least; without any token, it stands for none.
            self._vocabulary = Vocabulary([token or None for token in tokens], (), stops, max(width, 1))
        self._vocab_size = width
        self._vocab_type = vocab_type
        self._add_prefix_space = add_prefix_space

    @staticmethod
    def from_huggingface(
        tokenizer: Any, *, vocab_size: int | None = None, stop_token_ids: list[int] | int | None = None
    ) -> TokenizerInfo:
        """The vocabulary of a tokenizer of Hugging Face, as far as it has a place below ``vocab_size``.

        ``stop_token_ids`` defaults to the tokenizer's ``eos_token_id``. Raises what
        :meth:`shmcache.Vocabulary.from_huggingface` does for a tokenizer whose tokens have no bytes.
        """
        stops = [stop_token_ids] if isinstance(stop_token_ids, int) else stop_token_ids
        if stops is not None and not stops:
            raise MisuseError("stop_token_ids must not be empty")
        with translated():
            ours = Vocabulary.from_huggingface(tokenizer, stop_token_ids=stops)
        width = vocab_size or ours.size
        tokens = [ours.token_bytes(token) for token in range(min(ours.size, width))]
        info = TokenizerInfo.__new__(TokenizerInfo)
        kept = [stop for stop in ours.stop_token_ids if stop < width]
        info._fill(tokens, width, kept, _vocab_type_of(tokenizer), _adds_prefix_space(tokenizer))
        return info

    @property
    def vocabulary(self) -> Vocabulary:
        """The vocabulary itself."""
        return self._vocabulary

    @property
    def vocab_type(self) -> VocabType:
        """How the tokens were written."""
        return self._vocab_type

    @property
    def vocab_size(self) -> int:
        """The width of masks."""
        return self._vocab_size

    @property
    def add_prefix_space(self) -> bool:
        """Whether the tokenizer puts a space before a text; nothing here depends on it."""
        return self._add_prefix_space

    @property
    def prepend_space_in_tokenization(self) -> bool:
        """The older name of :attr:`add_prefix_space`."""
        return self._add_prefix_space

    @property
    def decoded_vocab(self) -> list[bytes]:
        """The bytes of all tokens."""
        return [self._vocabulary.token_bytes(token) for token in range(self._vocabulary.size)]

    @property
    def stop_token_ids(self) -> list[int]:
        """The ids that end a generation."""
        return list(self._vocabulary.stop_token_ids)

    @property
    def special_token_ids(self) -> list[int]:
        """The ids that stand for nothing: empty tokens, and those beyond the tokenizer's."""
        vocabulary = self._vocabulary
        return [token for token in range(self._vocab_size) if vocabulary.is_gap(token)]

    def dump_metadata(self) -> str:
        """All but the tokens, as JSON; :meth:`from_vocab_and_metadata` takes it."""
        metadata = {
            "vocab_type": self._vocab_type.value,
            "vocab_size": self.vocab_size,
            "add_prefix_space": self._add_prefix_space,
            "stop_token_ids": self.stop_token_ids,
        }
        return json.dumps(metadata, separators=(",", ":"))

    @staticmethod
    def from_vocab_and_metadata(encoded_vocab: list[bytes | str], metadata: str) -> TokenizerInfo:
        """The vocabulary whose metadata were dumped."""
        fields = json.loads(metadata)
        tokens: Any = encoded_vocab
        return TokenizerInfo(
            tokens,
            VocabType(fields["vocab_type"]),
            vocab_size=fields["vocab_size"],
            stop_token_ids=fields["stop_token_ids"],
            add_prefix_space=fields["add_prefix_space"],
        )

    def serialize_json(self) -> str:
        """All of it as JSON; :meth:`deserialize_json` restores it."""
        data = base64.b64encode(self._vocabulary.to_bytes()).decode()
        return serialization.write("tokenizer_info", {"metadata": self.dump_metadata(), "vocabulary": data})

    @staticmethod
    def deserialize_json(json_string: str) -> TokenizerInfo:
        """What :meth:`serialize_json` wrote."""
        fields = serialization.read("tokenizer_info", json_string, {"metadata": str, "vocabulary": str})
        try:
            vocabulary = Vocabulary.from_bytes(base64.b64decode(fields["vocabulary"], validate=True))
            metadata = json.loads(fields["metadata"])
            info = TokenizerInfo.__new__(TokenizerInfo)
            info._vocabulary = vocabulary
            info._vocab_size = int(metadata["vocab_size"])
            info._vocab_type = VocabType(metadata["vocab_type"])
            info._add_prefix_space = bool(metadata["add_prefix_space"])
        except Exception as error:  # whatever a damaged text may lead to
            raise DeserializeFormatError(f"this is no tokenizer_info: {error}") from error
        return info

    def __repr__(self) -> str:
        return f"<TokenizerInfo {self._vocab_type.name}, {self._vocabulary!r}>"


def _decoded(token: bytes | str, vocab_type: VocabType) -> bytes:
    if isinstance(token, bytes):
        try:
            text = token.decode()
        except UnicodeDecodeError:
            return token  # not written in characters, whatever the others are
    else:
        text = token
    if vocab_type is VocabType.RAW:
        return text.encode()
    if vocab_type is VocabType.BYTE_LEVEL:
        return byte_level_bytes(text)
    piece = _BYTE_PIECE.fullmatch(text)
    if piece is not None:
        return bytes([int(piece[1], 16)])
    return text.replace(_SPACE_SYMBOL, " ").encode()


def _vocab_type_of(tokenizer: Any) -> VocabType:
    tokens: Sequence[str] = tokenizer.get_vocab()
    if "<0x0A>" in tokens:
        return VocabType.BYTE_FALLBACK
    return VocabType.BYTE_LEVEL if "\u0120" in tokens and "\u010a" in tokens else VocabType.RAW


def _adds_prefix_space(tokenizer: Any) -> bool:
    encode = getattr(tokenizer, "encode", None)
    to_tokens = getattr(tokenizer, "convert_ids_to_tokens", None)
    if encode is None or to_tokens is None:
        return bool(getattr(tokenizer, "add_prefix_space", False))
    tokens = to_tokens(encode("a", add_special_tokens=False))
    return bool(tokens) and tokens[0].startswith((_SPACE_SYMBOL, "\u0120"))
