"""Errors under the names of XGrammar.

Owns the translation of our errors into theirs: each is of our class and of the class that XGrammar raises, so that
neither kind of caller has to change.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from shmcache.errors import LimitError, ShmCacheError, SourceError, UnsupportedError


class InvalidGrammarError(SourceError, RuntimeError):
    """The source of a grammar is malformed."""


class InvalidJSONError(SourceError, RuntimeError):
    """A text is not JSON."""


class InvalidStructuralTagError(SourceError, RuntimeError):
    """A structural tag is malformed."""


class UnsupportedFeatureError(UnsupportedError, RuntimeError):
    """What is asked for is not offered here; ``feature`` names it."""


class ExceededLimitError(LimitError, RuntimeError):
    """A budget was exceeded, when compiling or in a request that is too ambiguous."""


class DeserializeFormatError(ShmCacheError, RuntimeError):
    """What is to be read back was not written by this library, or belongs to another tokenizer."""

    code = "DESERIALIZE_FORMAT"


class DeserializeVersionError(ShmCacheError, RuntimeError):
    """What is to be read back was written in another version of the format."""

    code = "DESERIALIZE_VERSION"


class MisuseError(ShmCacheError, RuntimeError, ValueError):
    """A call that its arguments or the state of the request do not allow."""

    code = "MISUSE"


def not_offered(feature: str, instead: str = "") -> UnsupportedFeatureError:
    """The error for a name of XGrammar that is not offered here."""
    return UnsupportedFeatureError(
        f"shmcache.compat.xgrammar does not offer {feature}" + (f": {instead}" if instead else ""), feature=feature
    )


@contextmanager
def translated(malformed: type[SourceError] = InvalidGrammarError) -> Iterator[None]:
    """Raises our errors as those of XGrammar; malformed sources as ``malformed``."""
    try:
        yield
    except RuntimeError:
        raise
    except SourceError as error:
        raise _again(malformed, error) from error
    except UnsupportedError as error:
        raise _again(UnsupportedFeatureError, error) from error
    except LimitError as error:
        raise ExceededLimitError(error.message, limit=error.limit, value=error.value) from error
    except (ValueError, IndexError) as error:
        raise MisuseError(str(error)) from error


def _again(kind: Any, error: ShmCacheError) -> Any:
    return kind(error.message, **error.details)
