"""Data segments: one sealed payload each, behind a header that says what it is.

Owns the segment header and read-only mappings. Must never know what a payload means.

A segment is 128 header bytes and then the payload, so that the payload is aligned to a cache line. The header repeats
key, serial and generation; a reader compares them with what its look-up gave, so that a wrong file is never a hit.
"""

from __future__ import annotations

import fcntl
import os
import struct
import zlib
from collections.abc import Iterable
from dataclasses import dataclass

from shmcache.errors import SegmentError
from shmcache.memory import steps
from shmcache.memory.account import Entry
from shmcache.memory.mapping import map_read_only
from shmcache.memory.names import BUILDING_SUFFIX, parse_data_name
from shmcache.memory.objects import (
    SEALED_MODE,
    Buffer,
    building,
    check_descriptor,
    fill,
    list_objects,
    open_object,
    open_with_status,
    publish,
    unlink_object,
)
from shmcache.memory.words import KEY_BYTES

SEGMENT_MAGIC = b"shmcSEG\0"
SEGMENT_LAYOUT_VERSION = 2
HEADER_BYTES = 128
SEGMENT_BYTES_MAX = 1 << 32

_HEADER = struct.Struct("<8sIIQQQQ32s32sII")
"""Magic, layout version, tier, instance, serial, generation, payload length, key, text digest, and the checksums of
payload and header."""

_NO_CHECKSUM = bytes(4)

NO_TEXT = bytes(KEY_BYTES)
"""The text digest of a segment whose payload was not made of a text as somebody wrote it."""


@dataclass(frozen=True, slots=True)
class SegmentHeader:
    """What a segment says about itself. ``payload_checksum`` is the CRC-32 of the payload.

    ``text_digest`` is that of the text of which the payload was made, as its user wrote it: a second key.
    """

    tier: int
    instance: int
    serial: int
    generation: int
    key: bytes
    payload_bytes: int
    payload_checksum: int
    text_digest: bytes = NO_TEXT

    def to_bytes(self) -> bytes:
        """The 128 bytes at the start of the segment."""
        fields = (
            SEGMENT_MAGIC,
            SEGMENT_LAYOUT_VERSION,
            self.tier,
            self.instance,
            self.serial,
            self.generation,
            self.payload_bytes,
            self.key,
            self.text_digest,
            self.payload_checksum,
        )
        unsigned = _HEADER.pack(*fields, 0)
        return _HEADER.pack(*fields, zlib.crc32(unsigned)).ljust(HEADER_BYTES, b"\0")

    @classmethod
    def from_bytes(cls, data: Buffer) -> SegmentHeader:
        """The header of a segment; :class:`SegmentError` when it is not one of ours, or damaged."""
        if len(data) < HEADER_BYTES:
            raise SegmentError(f"a segment has at least {HEADER_BYTES} bytes, not {len(data)}")
        fields = _HEADER.unpack_from(data)
        magic, layout_version, tier, instance, serial, generation, payload_bytes, key, text_digest, *sums = fields
        payload_checksum, own = sums
        if magic != SEGMENT_MAGIC:
            raise SegmentError("not a shmcache segment")
        if layout_version != SEGMENT_LAYOUT_VERSION:
            raise SegmentError(f"segment layout {layout_version}, ours is {SEGMENT_LAYOUT_VERSION}")
        if own != zlib.crc32(_NO_CHECKSUM, zlib.crc32(data[: _HEADER.size - len(_NO_CHECKSUM)])):
            raise SegmentError("the segment header is damaged")
        return cls(tier, instance, serial, generation, key, payload_bytes, payload_checksum, text_digest)

    def is_of(self, entry: Entry, instance: int) -> bool:
        """Whether this is the segment that an index entry of that control segment means."""
        return (
            self.key == entry.key
            and self.serial == entry.serial
            and self.instance == instance
            and self.generation == entry.generation
            and self.tier == entry.tier
            and self.payload_bytes == entry.payload_bytes
        )


@dataclass(frozen=True, slots=True)
class SegmentInfo:
    """A published segment: its name and what it costs (whole pages)."""

    name: str
    header: SegmentHeader
    charged_bytes: int


class Mapping:
    """A segment mapped read-only. It lives as long as anything that looks into :attr:`payload`; there is no close.

    ``payload`` is a read-only memoryview of bytes, aligned to 64 bytes.
    """

    __slots__ = ("header", "payload", "size_bytes")

    def __init__(self, mapped: memoryview, header: SegmentHeader) -> None:
        self.header = header
        self.size_bytes = len(mapped)
        self.payload = mapped[HEADER_BYTES : HEADER_BYTES + header.payload_bytes]

    def check_payload(self) -> None:
        """Reads the whole payload and raises :class:`SegmentError` when it is not what was written."""
        if zlib.crc32(self.payload) != self.header.payload_checksum:
            raise SegmentError("the payload of a segment is damaged")


def create_segment(
    name: str,
    payload_parts: Iterable[Buffer],
    *,
    key: bytes,
    generation: int,
    tier: int,
    text_digest: bytes = NO_TEXT,
) -> SegmentInfo:
    """Makes and publishes the data segment ``name`` (from :meth:`Namespace.data_name`) with that payload.

    Raises :class:`LimitError` (``shm_bytes``) when shared memory is full, :class:`SegmentError` when the name is taken.
    """
    parsed = parse_data_name(name)
    if parsed is None or parsed.building:
        raise SegmentError(f"{name!r} is not the name of a data segment")
    parts = _views(payload_parts)
    header = _header(
        parts,
        key=key,
        generation=generation,
        tier=tier,
        instance=parsed.instance,
        serial=parsed.serial,
        text_digest=text_digest,
    )
    with building(name, HEADER_BYTES + header.payload_bytes) as descriptor:
        _write(descriptor, header, parts)
        publish(descriptor, name, mode=SEALED_MODE)
        return SegmentInfo(name, header, charged_bytes(descriptor))


def create_anonymous_segment(payload_parts: Iterable[Buffer], *, key: bytes, generation: int, tier: int) -> int:
    """A descriptor of a segment without a name (serial 0), outside the shared-memory file system and never charged.

    For images that are handed over once: those of an old generation, and all when ``/dev/shm`` is full. The memory is
    sealed, lives as long as descriptors and mappings of it, and is :func:`map_segment`-ed like any other.
    """
    parts = _views(payload_parts)
    header = _header(parts, key=key, generation=generation, tier=tier, instance=0, serial=0, text_digest=NO_TEXT)
    descriptor = steps.memfd_create("shmcache", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        _write(descriptor, header, parts)
        steps.fchmod(descriptor, SEALED_MODE)
        seals = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
        steps.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def open_segment(name: str) -> int:
    """A read-only descriptor of a published segment, owner and mode checked. FileNotFoundError when it is gone."""
    return open_object(name, mode=SEALED_MODE)


def map_segment(source: str | int) -> Mapping:
    """Maps a segment by name or by descriptor (which stays the caller's). Raises FileNotFoundError or SegmentError."""
    if isinstance(source, int):
        name = f"descriptor {source}"
        return _mapped(source, check_descriptor(source, name, mode=SEALED_MODE).st_size, name)
    descriptor, status = open_with_status(source, mode=SEALED_MODE)
    try:
        return _mapped(descriptor, status.st_size, source)
    finally:
        os.close(descriptor)


def read_header(source: str | int) -> SegmentHeader:
    """The header of a segment, without mapping it. Raises FileNotFoundError or SegmentError."""
    if isinstance(source, int):
        return SegmentHeader.from_bytes(os.pread(source, HEADER_BYTES, 0))
    descriptor = open_segment(source)
    try:
        return SegmentHeader.from_bytes(os.pread(descriptor, HEADER_BYTES, 0))
    finally:
        os.close(descriptor)


def charged_bytes(source: str | int) -> int:
    """What the segment takes from the file system, in bytes (``st_blocks`` × 512)."""
    if isinstance(source, int):
        return os.fstat(source).st_blocks * 512
    descriptor = open_segment(source)
    try:
        return os.fstat(descriptor).st_blocks * 512
    finally:
        os.close(descriptor)


def unlink_segment(name: str) -> bool:
    """Removes a data segment's name, and what its maker may have left unfinished. False when there was neither."""
    published = unlink_object(name)
    return unlink_object(name + BUILDING_SUFFIX) or published


def list_segments(prefix: str) -> list[str]:
    """Names of all data objects of a namespace, unfinished ones (ending in ``.new``) too."""
    return [name for name in list_objects(prefix + "-") if parse_data_name(name) is not None]


def _views(parts: Iterable[Buffer]) -> list[memoryview]:
    return [memoryview(part).cast("B") for part in parts]


def _header(
    parts: list[memoryview],
    *,
    key: bytes,
    generation: int,
    tier: int,
    instance: int,
    serial: int,
    text_digest: bytes,
) -> SegmentHeader:
    if len(key) != KEY_BYTES or len(text_digest) != KEY_BYTES:
        raise SegmentError(f"a key has {KEY_BYTES} bytes, not {len(key)} or {len(text_digest)}")
    payload_checksum = 0
    for part in parts:
        payload_checksum = zlib.crc32(part, payload_checksum)
    payload_bytes = sum(len(part) for part in parts)
    return SegmentHeader(
        tier, instance, serial, generation, bytes(key), payload_bytes, payload_checksum, bytes(text_digest)
    )


def _write(descriptor: int, header: SegmentHeader, parts: list[memoryview]) -> None:
    written = fill(descriptor, [header.to_bytes(), *parts])
    if written != HEADER_BYTES + header.payload_bytes:
        raise SegmentError(f"wrote {written} bytes of a segment of {HEADER_BYTES + header.payload_bytes}")


def _mapped(descriptor: int, size_bytes: int, name: str) -> Mapping:
    """The mapping of a descriptor whose owner, mode and size have been looked at."""
    if not HEADER_BYTES <= size_bytes <= SEGMENT_BYTES_MAX:
        raise SegmentError(f"{name} has an impossible size of {size_bytes} bytes")
    mapped = map_read_only(descriptor, size_bytes)
    header = SegmentHeader.from_bytes(mapped[:HEADER_BYTES])
    if HEADER_BYTES + header.payload_bytes != size_bytes:
        raise SegmentError(f"{name} has {size_bytes} bytes, its header says {header.payload_bytes} of payload")
    return Mapping(mapped, header)
