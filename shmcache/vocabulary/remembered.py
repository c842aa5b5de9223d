"""Vocabularies that were read from a file before, with their tries, so that the file need not be understood again.

Owns the folder they lie in, in the runtime directory, and what makes one of them usable. Must never know what is in a
tokenizer's file. Whatever goes wrong here costs time, never an error: the file is then read as if for the first time.

A vocabulary lies under the digest of the bytes and the options that it was made of: its own sections, and those of its
trie at the next multiple of 64 bytes. It is written under another name and then renamed, so it is always whole.
"""

from __future__ import annotations

import contextlib
import logging
import mmap
import os
import stat
import tempfile
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path

from shmcache.errors import SegmentError
from shmcache.settings import runtime_folder
from shmcache.vocabulary.sections import stored_bytes
from shmcache.vocabulary.trie import Trie
from shmcache.vocabulary.vocabulary import Vocabulary

FILES_MAX = 4
"""Vocabularies that are kept, each of about ten megabytes; the one unused for longest goes."""

_ALIGNMENT_BYTES = 64

_log = logging.getLogger("shmcache")


def remembered(reader: str, data: bytes, options: object, make: Callable[[], Vocabulary]) -> Vocabulary:
    """The vocabulary that ``make`` gives, or gave before for the same ``data``.

    It must depend on nothing but ``data`` and ``options``, whose repr says all of it; ``reader`` names it. Raises what
    ``make`` raises.
    """
    try:
        digest = blake2b(repr((_sources_digest(), reader, options)).encode(), digest_size=16, person=b"shmcache file")
        digest.update(data)
        path = runtime_folder("vocabularies") / f"{digest.hexdigest()}.vocabulary"
    except (OSError, SegmentError) as error:
        _log.debug("no vocabulary can be remembered: %s", error)
        return make()
    try:
        return _load(path)
    except (OSError, SegmentError) as error:
        _log.debug("no vocabulary is remembered: %s", error)
    vocabulary = make()
    try:
        _keep(path, vocabulary)
    except OSError as error:
        _log.debug("the vocabulary cannot be kept: %s", error)
    return vocabulary


def _sources_digest() -> bytes:
    """Of this package: with another version of it the same bytes may be read as another vocabulary."""
    digest = blake2b(digest_size=16)
    for path in sorted(Path(__file__).resolve().parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.digest()


def _load(path: Path) -> Vocabulary:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o022:
            raise SegmentError(f"{path} must be a file that no one else can write")
        if not status.st_size:
            raise SegmentError(f"{path} is empty")
        view = memoryview(mmap.mmap(descriptor, status.st_size, prot=mmap.PROT_READ))
        os.utime(descriptor)
    finally:
        os.close(descriptor)
    vocabulary = Vocabulary.from_bytes(view)
    rest, fingerprint = view[_aligned(stored_bytes(view)) :], vocabulary.fingerprint
    vocabulary.remember_trie(lambda: _trie(rest, fingerprint))
    return vocabulary


def _trie(view: memoryview, fingerprint: bytes) -> Trie | None:
    try:
        trie = Trie.from_buffer(view)
    except SegmentError as error:
        _log.debug("no trie is remembered: %s", error)
        return None
    return trie if trie.fingerprint == fingerprint else None


def _keep(path: Path, vocabulary: Vocabulary) -> None:
    data = vocabulary.to_bytes()
    descriptor, private = tempfile.mkstemp(prefix="new-", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.write(bytes(_aligned(len(data)) - len(data)))
            file.write(vocabulary.trie.to_bytes())
        os.replace(private, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(private)
        raise
    # Those left by processes that were killed while they wrote among them.
    used_at = {one: one.stat().st_mtime_ns for one in path.parent.iterdir()}
    for one in sorted(used_at, key=used_at.__getitem__, reverse=True)[FILES_MAX:]:
        one.unlink(missing_ok=True)


def _aligned(offset: int) -> int:
    return -(-offset // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES
