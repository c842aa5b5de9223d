"""Sources on their way from a client to a worker.

Owns the bytes or the descriptor of a source. Must never read what is in it: the worker does, within its limits.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass

from shmcache.errors import LimitError
from shmcache.limits import SOURCE_BYTES_MAX, TOKEN_COUNT_MAX
from shmcache.manager.fields import WireError

SOURCE_MESSAGE_BYTES_MAX = 2 * SOURCE_BYTES_MAX
"""A source with its options, as it is sent."""

VOCABULARY_BYTES_MAX = 64 * TOKEN_COUNT_MAX


@dataclass(slots=True)
class SourceHandle:
    """A source: its bytes, or a descriptor of ``size_bytes`` of them, which is closed by :meth:`close`."""

    inline: bytes
    descriptor: int
    size_bytes: int

    @classmethod
    def of(cls, inline: bytes, descriptors: list[int], *, is_vocabulary: bool) -> SourceHandle:
        """The source of a request. Takes over the descriptor; on an error it stays the caller's.

        Raises :class:`LimitError` when it is too large, :class:`WireError` when the descriptor is of no plain file.
        """
        if not descriptors:
            return cls(inline, -1, len(inline))
        status = os.fstat(descriptors[0])
        if not stat.S_ISREG(status.st_mode) or inline:
            raise WireError("a source is inline, or in a descriptor of memory or a file")
        limit = VOCABULARY_BYTES_MAX if is_vocabulary else SOURCE_MESSAGE_BYTES_MAX
        if status.st_size > limit:
            raise LimitError(f"a source of {status.st_size} bytes", limit="source_bytes", value=limit)
        return cls(b"", descriptors[0], status.st_size)

    @property
    def descriptors(self) -> list[int]:
        """What is to be sent beside the message."""
        return [self.descriptor] if self.descriptor >= 0 else []

    def close(self) -> None:
        """Nobody needs it any more."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1
