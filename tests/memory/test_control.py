"""The control segment's header: what is written is read, and nothing foreign is accepted."""

from __future__ import annotations

import os

import pytest

from shmcache.errors import SegmentError
from shmcache.memory import layout
from shmcache.memory.account import Totals
from shmcache.memory.control import (
    COUNT_MAX,
    UNLIMITED,
    ControlReader,
    ControlWriter,
    control_image,
    create_control,
    open_control_descriptor,
    open_control_reader,
    open_control_writer,
)
from shmcache.memory.layout import ManagerState
from shmcache.memory.names import Namespace, object_path
from shmcache.memory.objects import list_objects
from shmcache.memory.words import checksum, words_of


def test_a_new_control_segment_reads_as_written(namespace: Namespace) -> None:
    writer = create_control(namespace, home_count=64, row_count=8)
    writer.set_limit(12345)
    epoch = writer.begin_epoch(pid=42, start_ticks=99)
    writer.set_state(ManagerState.SERVING)
    writer.set_lease_works(True)
    writer.count("succeeded", 3)
    writer.set_totals(Totals((1, 2, 3), (4, 5, 6), 7, 8))
    reader = open_control_reader(namespace)
    assert reader.instance == writer.instance != 0
    assert (reader.generation, reader.limit_bytes, reader.serial_last) == (1, 12345, 0)
    manager = reader.manager()
    assert (manager.pid, manager.start_ticks, manager.epoch, manager.state) == (42, 99, epoch, ManagerState.SERVING)
    assert manager.lease_works
    assert reader.counters()["succeeded"] == 3
    assert reader.totals() == Totals((1, 2, 3), (4, 5, 6), 7, 8)
    assert reader.totals().cache_bytes == 3


def test_unlimited_round_trips() -> None:
    writer = ControlWriter(control_image(home_count=4))
    writer.set_limit(5)
    writer.set_limit(UNLIMITED)
    assert writer.limit_bytes == UNLIMITED


def test_what_counts_up_never_repeats_in_a_later_writer(namespace: Namespace) -> None:
    writer = create_control(namespace, home_count=64)
    first = (
        writer.next_serial(),
        writer.next_version(),
        writer.next_generation(),
        writer.begin_epoch(pid=1, start_ticks=1),
    )
    writer = open_control_writer(namespace)
    second = (
        writer.next_serial(),
        writer.next_version(),
        writer.next_generation(),
        writer.begin_epoch(pid=1, start_ticks=1),
    )
    assert all(old < new for old, new in zip(first, second, strict=True))


def test_a_counter_has_an_end() -> None:
    """Figures come from workers and clients: whatever they say, the manager counts on."""
    writer = ControlWriter(control_image(home_count=4))
    for _ in range(4):
        writer.count("compile_us", (1 << 63) - 1)
    writer.count("succeeded")
    assert writer.counters()["compile_us"] == COUNT_MAX
    assert writer.counters()["succeeded"] == 1


def test_a_counter_never_goes_below_zero() -> None:
    writer = ControlWriter(control_image(home_count=4))
    writer.count("in_flight", -1)
    assert writer.counters()["in_flight"] == 0


def test_creating_twice_is_refused_and_loses_nothing(namespace: Namespace) -> None:
    writer = create_control(namespace, home_count=64)
    with pytest.raises(SegmentError, match="exists"):
        create_control(namespace, home_count=64)
    assert open_control_reader(namespace).instance == writer.instance
    assert list_objects(namespace.prefix) == [namespace.control_name]


def test_a_half_made_control_segment_is_no_obstacle(namespace: Namespace) -> None:
    object_path(namespace.control_name + ".new").write_bytes(b"left over")
    create_control(namespace, home_count=64)
    assert list_objects(namespace.prefix) == [namespace.control_name]


def test_mode_is_private(namespace: Namespace) -> None:
    create_control(namespace, home_count=64)
    path = object_path(namespace.control_name)
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o644)
    with pytest.raises(SegmentError, match="mode"):
        open_control_reader(namespace)


def test_readers_cannot_store(namespace: Namespace) -> None:
    create_control(namespace, home_count=64)
    with pytest.raises(TypeError):
        open_control_reader(namespace).words[layout.GENERATION] = 7


def test_opening_by_descriptor(namespace: Namespace) -> None:
    writer = create_control(namespace, home_count=64)
    descriptor = open_control_descriptor(namespace)
    try:
        assert open_control_reader(descriptor).instance == writer.instance
    finally:
        os.close(descriptor)


def test_no_control_segment(namespace: Namespace) -> None:
    with pytest.raises(FileNotFoundError):
        open_control_reader(namespace)


@pytest.mark.parametrize("size_bytes", [0, 8, 4095, 4096, 8192, -1])
def test_a_truncated_control_segment_is_refused(namespace: Namespace, size_bytes: int) -> None:
    create_control(namespace, home_count=64)
    path = object_path(namespace.control_name)
    os.truncate(path, size_bytes if size_bytes >= 0 else path.stat().st_size - 4096)
    with pytest.raises(SegmentError):
        open_control_reader(namespace)


@pytest.mark.parametrize("position", [*layout.CONSTANT_WORDS, layout.CONSTANT_CHECKSUM])
def test_every_damaged_constant_word_is_found(position: int) -> None:
    image = control_image(home_count=4)
    words_of(image)[position] ^= 1 << 20
    with pytest.raises(SegmentError):
        ControlReader(image)


def _resealed(position: int, value: int) -> bytearray:
    image = control_image(home_count=4)
    words = words_of(image)
    words[position] = value
    words[layout.CONSTANT_CHECKSUM] = checksum(words[place] for place in layout.CONSTANT_WORDS)
    return image


@pytest.mark.parametrize(
    ("position", "value", "message"),
    [
        (layout.LAYOUT_VERSION, layout.CONTROL_LAYOUT_VERSION + 1, "layout"),
        (layout.BOOT_ID, 1, "boot"),
        (layout.OWNER_UID, 54321, "uid"),
        (layout.HOME_COUNT, 4096, "needs"),
        (layout.HOME_COUNT, 0, "homes"),
        (layout.HOME_COUNT, 1 << 63, "homes"),
        (layout.ROW_COUNT, 1 << 40, "rows"),
        (layout.WINDOW, 1 << 40, "needs"),
        (layout.SIZE_BYTES, 1 << 40, "needs"),
    ],
)
def test_well_formed_but_foreign_headers_are_refused(position: int, value: int, message: str) -> None:
    with pytest.raises(SegmentError, match=message):
        ControlReader(_resealed(position, value))


def test_garbage_in_the_manager_state_is_nobody() -> None:
    writer = ControlWriter(control_image(home_count=4))
    writer.words[layout.MANAGER_STATE] = 1 << 60
    assert writer.manager().state is ManagerState.ABSENT


def test_the_generation_has_a_cache_line_of_its_own() -> None:
    others = [position for name, position in vars(layout).items() if name.isupper() and isinstance(position, int)]
    assert layout.GENERATION % 8 == 0
    fields = {layout.MANAGER_PID, layout.LIMIT_BYTES, layout.CHARGED, layout.COUNTERS, layout.CONSTANT_CHECKSUM}
    assert fields <= set(others)
    assert all(position // 8 != layout.GENERATION // 8 for position in fields | set(layout.CONSTANT_WORDS))


def test_a_dissolved_segment_says_so(namespace: Namespace) -> None:
    writer = create_control(namespace, home_count=64)
    reader = open_control_reader(namespace)
    generation = reader.generation
    writer.dissolve()
    assert reader.is_dissolved
    assert reader.generation > generation
