"""Which vocabulary a command works with, as a user names it.

Owns the names and the loading. Must never load a tokenizer library that was not named.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from shmcache.errors import SegmentError
from shmcache.manager.parts import split_vocabulary
from shmcache.memory.layout import Tier
from shmcache.memory.names import Namespace
from shmcache.memory.segments import map_segment
from shmcache_tools.entry_facts import entry_name
from shmcache_tools.exit_codes import NotFoundError
from shmcache_tools.shared_stats import open_view

if TYPE_CHECKING:
    from shmcache.vocabulary.vocabulary import Vocabulary

Function = TypeVar("Function", bound=Callable[..., Any])

STOP = "</s>"
CHOICES = "bytes, cache[:KEY], mistral[:FILE], huggingface:FILE, tiktoken:NAME, sentencepiece:FILE"


def vocabulary_option(default: str) -> Callable[[Function], Function]:
    """Adds ``--vocabulary``, whose argument is the name for :func:`load_vocabulary`."""
    return click.option("--vocabulary", default=default, show_default=True, metavar="WHICH", help=f"One of {CHOICES}.")


def load_vocabulary(choice: str, namespace: str | None) -> Vocabulary:
    """The vocabulary of that name: every byte a token, the one that the cache holds, or a tokenizer's.

    Raises click's usage error for another name, :class:`NotFoundError` when the cache holds none or several.
    """
    kind, _, value = choice.partition(":")
    loaders: dict[str, Callable[[str], Vocabulary]] = {
        "bytes": lambda _: byte_vocabulary(),
        "cache": lambda prefix: _cached(Namespace.of(namespace), prefix),
        "mistral": _mistral,
        "huggingface": _huggingface,
        "tiktoken": _tiktoken,
        "sentencepiece": _sentencepiece,
    }
    loader = loaders.get(kind)
    if loader is None or (not value and kind in ("huggingface", "tiktoken", "sentencepiece")):
        raise click.UsageError(f"{choice!r} is no vocabulary; there are {CHOICES}")
    try:
        return loader(value)
    except ModuleNotFoundError as error:
        raise click.UsageError(f"{kind} needs a library: pip install 'shmcache[{kind}]' ({error})") from error


def byte_vocabulary() -> Vocabulary:
    """A token for each byte, and a stop token: what a grammar means does not depend on more."""
    from shmcache.vocabulary.vocabulary import Vocabulary

    return Vocabulary([bytes([byte]) for byte in range(256)] + [STOP.encode()], stop_token_ids=[256])


def _cached(namespace: Namespace, prefix: str) -> Vocabulary:
    from shmcache.vocabulary.vocabulary import Vocabulary

    view = open_view(namespace)
    found = [
        entry
        for entry in view.entries()
        if entry.tier is Tier.VOCABULARY and view.index.look_up(entry.key) and entry.key.hex().startswith(prefix)
    ]
    if len(found) != 1:
        raise NotFoundError(
            f"the cache holds {len(found)} vocabularies{f' whose key begins with {prefix}' if prefix else ''}, not one"
        )
    try:
        payload = map_segment(entry_name(view, found[0])).payload
    except FileNotFoundError:
        raise NotFoundError("the vocabulary has just gone") from None
    vocabulary = Vocabulary.from_bytes(bytes(split_vocabulary(payload)[0]))
    if vocabulary.fingerprint != found[0].key:
        raise SegmentError("the cached vocabulary is another than its key says")
    return vocabulary


def _mistral(path: str) -> Vocabulary:
    from shmcache.vocabulary.vocabulary import Vocabulary

    if not path:
        return Vocabulary.from_mistral()
    from mistral_common.tokens.tokenizers.mistral import MistralTokenizer

    return Vocabulary.from_mistral(_loaded(MistralTokenizer.from_file, path))


def _huggingface(path: str) -> Vocabulary:
    from tokenizers import Tokenizer

    from shmcache.vocabulary.vocabulary import Vocabulary

    return Vocabulary.from_huggingface(_loaded(Tokenizer.from_file, path))


def _tiktoken(name: str) -> Vocabulary:
    import tiktoken

    from shmcache.vocabulary.vocabulary import Vocabulary

    return Vocabulary.from_tiktoken(_loaded(tiktoken.get_encoding, name))


def _sentencepiece(path: str) -> Vocabulary:
    import sentencepiece

    from shmcache.vocabulary.vocabulary import Vocabulary

    return Vocabulary.from_sentencepiece(
        _loaded(lambda file: sentencepiece.SentencePieceProcessor(model_file=file), path)
    )


def _loaded(load: Callable[[str], Any], value: str) -> Any:
    """What the library makes of it; its errors are many and of no common kind."""
    try:
        return load(value)
    except Exception as error:
        raise click.ClickException(f"{value} cannot be loaded: {error}") from error
