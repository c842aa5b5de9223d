"""Every error a user can meet, one class a condition.

Owns the error classes, their stable codes and their plain-data form (what the wire and the refusal table carry).
Must never know where an error came from: position and pointer are given to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar


class ShmCacheError(Exception):
    """Root of all errors of shmcache. ``code`` is stable and is what logs and the command line show."""

    code: ClassVar[str] = "SHMCACHE_ERROR"

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.details: dict[str, Any] = {name: value for name, value in details.items() if value is not None}

    def to_plain(self) -> dict[str, Any]:
        """Plain data (``code``, ``message``, ``details``) from which :func:`error_from_plain` restores the error."""
        return {"code": self.code, "message": self.message, "details": self.details}

    def __reduce__(self) -> tuple[Any, ...]:
        return error_from_plain, (self.to_plain(),)


class SourceError(ShmCacheError):
    """The source text is malformed. ``pointer`` (JSON Schema) or ``line`` and ``column`` (1-based) say where."""

    code = "SOURCE_ERROR"

    def __init__(
        self, message: str, *, pointer: str | None = None, line: int | None = None, column: int | None = None
    ) -> None:
        super().__init__(message, pointer=pointer, line=line, column=column)
        self.pointer = pointer
        self.line = line
        self.column = column


class UnsupportedError(ShmCacheError):
    """A well-formed source asks for a ``feature`` we do not enforce; ``pointer`` or ``line``/``column`` say where."""

    code = "UNSUPPORTED"

    def __init__(
        self,
        message: str,
        *,
        feature: str,
        pointer: str | None = None,
        line: int | None = None,
        column: int | None = None,
    ) -> None:
        super().__init__(message, feature=feature, pointer=pointer, line=line, column=column)
        self.feature = feature
        self.pointer = pointer
        self.line = line
        self.column = column


class LimitError(ShmCacheError):
    """A budget was exceeded. ``limit`` names it (unit last, such as ``states``), ``value`` is its setting."""

    code = "LIMIT"

    def __init__(self, message: str, *, limit: str, value: float | None = None) -> None:
        super().__init__(message, limit=limit, value=value)
        self.limit = limit
        self.value = value


class BatchLimitError(LimitError):
    """Some matchers of a batch exceeded a budget; the others were served. Details are those of the first that did.

    ``failures`` has the error of each that did, by its place in the batch, and ``accepted`` the answers of all where
    tokens or strings were accepted. Sent to another process it is a :class:`LimitError`.
    """

    def __init__(self, failures: Mapping[int, LimitError], accepted: Sequence[bool] = ()) -> None:
        first = failures[min(failures)]
        places = ", ".join(map(str, sorted(failures)))
        super().__init__(f"{first.message} (in the batch: {places})", limit=first.limit, value=first.value)
        self.failures = dict(failures)
        self.accepted = list(accepted)


class SegmentError(ShmCacheError):
    """Bytes in shared memory are corrupt, foreign, of another layout version, or of another vocabulary."""

    code = "SEGMENT"


class ManagerUnavailable(ShmCacheError):  # noqa: N818  (a public name fixed by the design)
    """No manager answers and none could be started. Compiles never raise it: they fall back to a private compile."""

    code = "MANAGER_UNAVAILABLE"


_BY_CODE: dict[str, type[ShmCacheError]] = {
    error.code: error
    for error in (ShmCacheError, SourceError, UnsupportedError, LimitError, SegmentError, ManagerUnavailable)
}


def error_from_plain(plain: dict[str, Any]) -> ShmCacheError:
    """The error that :meth:`ShmCacheError.to_plain` described; an unknown code gives the root class."""
    details = plain.get("details") or {}
    kind = _BY_CODE.get(str(plain.get("code")), ShmCacheError)
    message = str(plain.get("message", ""))
    try:
        return kind(message, **details)
    except TypeError:
        return ShmCacheError(message, **{str(name): value for name, value in details.items()})
