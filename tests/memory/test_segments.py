"""Data segments: created whole, sealed, and checked before use."""

from __future__ import annotations

import errno
import os
import resource
from dataclasses import replace
from pathlib import Path

import pytest

from shmcache.errors import LimitError, SegmentError
from shmcache.memory import steps
from shmcache.memory.names import Namespace, object_path
from shmcache.memory.objects import list_objects
from shmcache.memory.segments import (
    HEADER_BYTES,
    SegmentHeader,
    charged_bytes,
    create_anonymous_segment,
    create_segment,
    list_segments,
    map_segment,
    open_segment,
    read_header,
    unlink_segment,
)

KEY = bytes(range(32))


def _create(namespace: Namespace, serial: int = 1, payload: bytes = b"payload") -> str:
    name = namespace.data_name(7, serial)
    create_segment(name, [payload], key=KEY, generation=3, tier=1)
    return name


def test_a_segment_round_trips(namespace: Namespace) -> None:
    name = namespace.data_name(7, 5)
    info = create_segment(name, [b"abc", memoryview(b"defg"), bytearray(9000)], key=KEY, generation=3, tier=1)
    mapping = map_segment(name)
    assert bytes(mapping.payload) == b"abcdefg" + bytes(9000)
    assert mapping.payload.readonly
    assert mapping.header == info.header == read_header(name)
    assert (info.header.key, info.header.generation, info.header.tier) == (KEY, 3, 1)
    assert (info.header.instance, info.header.serial, info.header.payload_bytes) == (7, 5, 9007)
    assert info.charged_bytes == charged_bytes(name) == 12288
    mapping.check_payload()


def test_a_published_segment_is_sealed_and_whole_in_name(namespace: Namespace) -> None:
    name = _create(namespace)
    assert object_path(name).stat().st_mode & 0o777 == 0o440
    assert list_segments(namespace.prefix) == [name]
    assert object_path(name).stat().st_nlink == 1


def test_payloads_are_aligned_to_a_cache_line(namespace: Namespace) -> None:
    assert HEADER_BYTES % 64 == 0
    assert map_segment(_create(namespace)).payload.cast("B").nbytes == 7


def test_a_mapping_outlives_its_name(namespace: Namespace) -> None:
    name = _create(namespace)
    mapping = map_segment(name)
    assert unlink_segment(name)
    assert not unlink_segment(name)
    assert bytes(mapping.payload) == b"payload"
    with pytest.raises(FileNotFoundError):
        map_segment(name)


def test_a_taken_name_is_refused_and_untouched(namespace: Namespace) -> None:
    name = _create(namespace)
    with pytest.raises(SegmentError, match="exists"):
        _create(namespace, payload=b"other")
    assert bytes(map_segment(name).payload) == b"payload"
    assert list_segments(namespace.prefix) == [name]


def test_a_squatted_private_name_is_refused(namespace: Namespace) -> None:
    name = namespace.data_name(7, 1)
    object_path(name + ".new").write_bytes(b"squatter")
    with pytest.raises(SegmentError, match="exists"):
        _create(namespace)
    assert object_path(name + ".new").read_bytes() == b"squatter"


def test_a_full_file_system_is_a_typed_error_and_leaves_nothing(
    namespace: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int, offset: int, length: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(steps, "posix_fallocate", full)
    with pytest.raises(LimitError) as caught:
        _create(namespace)
    assert caught.value.limit == "shm_bytes"
    assert list_objects(namespace.prefix) == []


def test_no_room_for_a_name_is_a_limit_too(namespace: Namespace, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(steps, "link", full)
    with pytest.raises(LimitError) as caught:
        create_segment(namespace.data_name(1, 1), [b"x"], key=bytes(32), generation=1, tier=0)
    assert caught.value.limit == "shm_bytes"
    assert list_objects(namespace.prefix) == []


def test_memory_is_allocated_before_it_is_written(namespace: Namespace, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    fallocate, pwrite = os.posix_fallocate, os.pwrite
    monkeypatch.setattr(steps, "posix_fallocate", lambda *a: (calls.append("fallocate"), fallocate(*a))[1])
    monkeypatch.setattr(steps, "pwrite", lambda *a: (calls.append("pwrite"), pwrite(*a))[1])
    _create(namespace)
    assert calls[0] == "fallocate"
    assert calls.count("fallocate") == 1
    assert "pwrite" in calls


def test_an_error_while_filling_leaves_nothing(namespace: Namespace, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> int:
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(steps, "pwrite", broken)
    with pytest.raises(OSError, match="broken"):
        _create(namespace)
    assert list_objects(namespace.prefix) == []


@pytest.mark.parametrize("mode", [0o644, 0o666, 0o600, 0o460])
def test_another_mode_is_refused(namespace: Namespace, mode: int) -> None:
    name = _create(namespace)
    object_path(name).chmod(mode)
    with pytest.raises(SegmentError, match="mode"):
        map_segment(name)


def test_another_owner_is_refused(namespace: Namespace, monkeypatch: pytest.MonkeyPatch) -> None:
    name = _create(namespace)
    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    with pytest.raises(SegmentError, match="belong"):
        map_segment(name)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_another_user_is_refused(namespace: Namespace) -> None:
    name = _create(namespace)
    os.chown(object_path(name), 12345, -1)
    with pytest.raises(SegmentError, match="12345"):
        map_segment(name)


def test_a_symbolic_link_is_refused(namespace: Namespace) -> None:
    name = _create(namespace)
    link = namespace.data_name(7, 2)
    object_path(link).symlink_to(object_path(name))
    with pytest.raises(SegmentError):
        map_segment(link)


def test_a_pipe_is_refused_at_once(namespace: Namespace) -> None:
    name = namespace.data_name(7, 2)
    os.mkfifo(object_path(name), 0o440)
    with pytest.raises(SegmentError):
        map_segment(name)


def test_a_truncated_segment_is_refused(namespace: Namespace) -> None:
    name = _create(namespace, payload=bytes(5000))
    os.truncate(object_path(name), 4096)
    with pytest.raises(SegmentError, match="header says"):
        map_segment(name)
    os.truncate(object_path(name), 100)
    with pytest.raises(SegmentError, match="size"):
        map_segment(name)
    os.truncate(object_path(name), 0)
    with pytest.raises(SegmentError, match="size"):
        map_segment(name)


def test_every_damaged_header_byte_is_found() -> None:
    header = SegmentHeader(1, 2, 3, 4, KEY, 5, 6)
    data = header.to_bytes()
    assert len(data) == HEADER_BYTES
    assert SegmentHeader.from_bytes(data) == header
    for position in range(88):
        damaged = bytearray(data)
        damaged[position] ^= 0x10
        with pytest.raises(SegmentError):
            SegmentHeader.from_bytes(damaged)
    with pytest.raises(SegmentError):
        SegmentHeader.from_bytes(data[:-1])


def test_another_layout_version_is_named() -> None:
    data = bytearray(SegmentHeader(1, 2, 3, 4, KEY, 5, 6).to_bytes())
    data[8] += 1
    with pytest.raises(SegmentError, match="layout 3"):
        SegmentHeader.from_bytes(data)


def test_a_damaged_payload_is_found_on_request(namespace: Namespace) -> None:
    name = _create(namespace)
    with object_path(name).open("r+b") as file:
        file.seek(HEADER_BYTES)
        file.write(b"P")
    with pytest.raises(SegmentError, match="payload"):
        map_segment(name).check_payload()


def test_only_data_names_are_created(namespace: Namespace) -> None:
    for name in (namespace.control_name, namespace.data_name(1, 1) + ".new", "/x"):
        with pytest.raises(SegmentError, match="name"):
            create_segment(name, [b""], key=KEY, generation=1, tier=0)
    with pytest.raises(SegmentError, match="32 bytes"):
        create_segment(namespace.data_name(1, 1), [b""], key=b"short", generation=1, tier=0)


def test_an_anonymous_segment_maps_like_any_other_and_is_sealed(namespace: Namespace) -> None:
    descriptor = create_anonymous_segment([b"pay", b"load"], key=KEY, generation=3, tier=0)
    try:
        mapping = map_segment(descriptor)
        with pytest.raises(PermissionError):
            os.pwrite(descriptor, b"x", 0)
        with pytest.raises(PermissionError):
            os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)
    assert bytes(mapping.payload) == b"payload"
    assert (mapping.header.serial, mapping.header.key) == (0, KEY)
    assert list_objects(namespace.prefix) == []


def test_mapping_leaves_no_descriptor(namespace: Namespace) -> None:
    name = _create(namespace)
    before = len(os.listdir("/proc/self/fd"))
    mapping = map_segment(name)
    during = len(os.listdir("/proc/self/fd"))
    del mapping
    assert during == before
    assert len(os.listdir("/proc/self/fd")) == before


def test_header_is_of_compares_everything() -> None:
    from shmcache.memory.account import Entry
    from shmcache.memory.layout import SlotState, Tier

    header = SegmentHeader(0, 2, 3, 4, KEY, 5, 6)
    entry = Entry(0, 1, SlotState.READY, Tier.GRAMMAR, 4, KEY, 3, 4096, 5, 0, 0)
    assert header.is_of(entry, 2)
    assert not header.is_of(entry, 1)
    for other in (
        replace(entry, key=bytes(32)),
        replace(entry, serial=4),
        replace(entry, generation=5),
        replace(entry, tier=Tier.RULE),
        replace(entry, payload_bytes=6),
    ):
        assert not header.is_of(other, 2)


def test_a_process_maps_more_segments_than_it_may_open_files(namespace: Namespace) -> None:
    name = _create(namespace)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 8, hard))
    try:
        mappings = [map_segment(name) for _ in range(100)]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert all(bytes(mapping.payload) == bytes(mappings[0].payload) for mapping in mappings)


def test_a_view_keeps_its_pages_and_the_last_one_unmaps(namespace: Namespace) -> None:
    def maps() -> int:
        return Path("/proc/self/maps").read_text().count(name[1:])

    name = _create(namespace)
    mapping = map_segment(name)
    view = memoryview(mapping.payload)[1:]
    expected = bytes(view)
    assert maps() == 1
    del mapping
    assert maps() == 1
    assert bytes(view) == expected
    assert view.readonly
    del view
    assert maps() == 0


def test_open_segment_opens_anew(namespace: Namespace) -> None:
    name = _create(namespace)
    descriptor = open_segment(name)
    try:
        assert read_header(descriptor).serial == 1
    finally:
        os.close(descriptor)
