"""Any bytes in place of ours: a typed error or a miss, never a crash, never another grammar."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shmcache.errors import SegmentError
from shmcache.grammar.key import Source
from shmcache.image.image import open_image, write_image
from shmcache.manager import wire
from shmcache.manager.recovery import leave, recover
from shmcache.memory import layout
from shmcache.memory.check import check
from shmcache.memory.control import ControlReader, ControlWriter, control_image
from shmcache.memory.index import IndexReader, IndexWriter
from shmcache.memory.layout import SlotState, Tier
from shmcache.memory.lease import ignore_lease_signals
from shmcache.memory.names import object_path
from shmcache.memory.objects import SEALED_MODE
from shmcache.memory.reader import SharedCache
from shmcache.memory.segments import HEADER_BYTES, map_segment
from shmcache.memory.words import checksum
from shmcache.vocabulary.trie import Trie
from shmcache.vocabulary.vocabulary import Vocabulary
from tests.client.support import VOCABULARY, image_of
from tests.manager.live import Live, manager_thread
from tests.memory.support import Cache, key_of, own_namespace, place_consistent

SOURCE = Source.regex("a[bc]{2}")
KEY = SOURCE.key(VOCABULARY.fingerprint)
IMAGE = image_of(SOURCE)
BOUNDED = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

Edit = tuple[float, bytes]
EDITS = st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.binary(min_size=1, max_size=40)), max_size=4)
"""Where, as a part of the whole, and what is written there."""


def edited(data: bytes, edits: list[Edit], length: float) -> bytes:
    """``data`` with pieces overwritten, then cut or extended to that part of its length."""
    changed = bytearray(data)
    for place, piece in edits:
        start = int(place * len(changed))
        changed[start : start + len(piece)] = piece[: len(changed) - start]
    return bytes(changed[: int(length * len(data))]).ljust(int(length * len(data)), b"\0")


WORDS = st.lists(st.tuples(st.integers(0, 4000), st.integers(0, (1 << 64) - 1) | st.integers(0, 5)), max_size=30)
"""Positions in a control segment, and what is stored there."""

LENGTHS = st.sampled_from([0.0, 0.3, 0.99, 1.0, 1.0, 1.0, 1.2])


@BOUNDED
@given(EDITS, LENGTHS)
def test_any_segment_is_a_miss_or_the_grammar(edits: list[Edit], length: float) -> None:
    with own_namespace() as names:
        cache = Cache.create(names, home_count=4)
        entry = cache.add(KEY, IMAGE)
        path = object_path(names.data_name(cache.control.instance, entry.serial))
        path.chmod(0o600)
        path.write_bytes(edited(path.read_bytes(), edits, length))
        path.chmod(SEALED_MODE)
        found = SharedCache.open(names).open_entry(KEY)
        if found is None:
            return
        try:
            image = open_image(found[1].payload, expected_key=KEY, check_bounds=False)
        except SegmentError:
            return
        assert write_image(image) == IMAGE


@BOUNDED
@given(EDITS, LENGTHS)
def test_any_image_is_refused_or_the_image(edits: list[Edit], length: float) -> None:
    try:
        image = open_image(memoryview(edited(IMAGE, edits, length)), expected_key=KEY)
    except SegmentError:
        return
    assert write_image(image) == IMAGE


@BOUNDED
@given(EDITS, LENGTHS)
def test_any_vocabulary_and_trie_are_refused_or_ours(edits: list[Edit], length: float) -> None:
    with suppress(SegmentError):
        assert Vocabulary.from_bytes(edited(VOCABULARY.to_bytes(), edits, length)).fingerprint == VOCABULARY.fingerprint
    with suppress(SegmentError):
        trie = Trie.from_buffer(edited(VOCABULARY.trie.to_bytes(), edits, length))
        assert trie.to_bytes() == VOCABULARY.trie.to_bytes()


@BOUNDED
@given(WORDS)
def test_any_words_in_the_control_segment(words: list[tuple[int, int]]) -> None:
    """A reader finds nothing or the key; a writer repairs it; neither raises anything but a SegmentError."""
    image = control_image(home_count=4, row_count=4)
    control = ControlWriter(image)
    index = IndexWriter(control)
    keys = [key_of(number, fingerprint=number % 2) for number in range(1, 5)]
    for key in keys:
        assert place_consistent(index, control, key) is not None
    for position, value in words:
        control.words[position % len(control.words)] = value
    try:
        reader = IndexReader(ControlReader(image))
    except SegmentError:
        return
    for key in keys:
        entry = reader.look_up(key)
        assert entry is None or entry.key == key
        assert entry is None or entry.state is SlotState.READY
    assert all(entry.state in SlotState for entry in reader.read_all())
    reader.control.totals()
    reader.control.manager()
    successor = IndexWriter(ControlWriter(image))
    successor.repair()
    assert successor.repair() == []


@settings(max_examples=200, deadline=None)
@given(WORDS, EDITS)
def test_a_manager_starts_over_any_control_segment(words: list[tuple[int, int]], edits: list[Edit]) -> None:
    """Whatever the bytes of control and data segments: recovery succeeds, and afterwards everything agrees."""
    ignore_lease_signals()
    with own_namespace() as names:
        cache = Cache.create(names, home_count=4)
        for number in range(3):
            cache.add(key_of(number), b"payload %d" % number)
        damaged = cache.add(key_of(7), b"damaged")
        path = object_path(names.data_name(cache.control.instance, damaged.serial))
        path.chmod(0o600)
        path.write_bytes(edited(path.read_bytes()[:HEADER_BYTES], edits, 1.0) + path.read_bytes()[HEADER_BYTES:])
        path.chmod(SEALED_MODE)
        for position, value in words:
            cache.control.words[position % len(cache.control.words)] = value
        names.make_directory()
        recovered = recover(names, -1)
        reader = SharedCache.open(names)
        left = {finding.code for finding in check(reader.control, reader.index, names.prefix)}
        leave(recovered.shelf)
        # What a hostile or broken writer claims in a record that is sound in itself is found, not believed.
        assert left <= {"FILE_CHARGE", "SERIAL_FUTURE", "GENERATION_FUTURE", "KEY_TWICE", "SLOT_UNREACHABLE"}, left


@pytest.mark.parametrize("position", [layout.GENERATION, layout.MANAGER_EPOCH, layout.SERIAL_LAST, layout.VERSION_LAST])
def test_a_count_that_cannot_be_raised_gives_a_new_cache(position: int) -> None:
    ignore_lease_signals()
    with own_namespace() as names:
        cache = Cache.create(names, home_count=4)
        cache.add(key_of(1), b"payload")
        cache.control.words[position] = (1 << 64) - 1
        names.make_directory()
        recovered = recover(names, -1)
        assert recovered.shelf.control.instance != cache.control.instance
        assert recovered.shelf.index.raise_generation() == 2
        leave(recovered.shelf)


def test_sound_records_of_impossible_sizes_are_damaged() -> None:
    control = ControlWriter(control_image(home_count=4))
    index = IndexWriter(control)
    for number in range(3):
        entry = index.reserve(
            key_of(number), tier=Tier.GRAMMAR, generation=1, serial=number + 1, reserved_bytes=0, owner=0
        )
        assert entry is not None
        start = control.records_start + layout.RECORD_WORDS * entry.slot
        control.words[start + layout.RECORD_CHARGED] = (1 << 64) - 1
        fields = control.words[start + layout.RECORD_STATE : start + layout.RECORD_CHECKSUM].tolist()
        control.words[start + layout.RECORD_CHECKSUM] = checksum(fields)
    successor = IndexWriter(control)
    assert len(successor.repair()) == 3
    assert successor.totals.all_bytes == 0


@pytest.fixture(scope="module")
def live() -> Iterator[Live]:
    with manager_thread(f"fuzz-{os.getpid()}") as live:
        live.asker().give_vocabulary()
        yield live


VALID = [
    wire.encode(message)
    for message in (
        wire.Hello(1, wire.PROTOCOL_VERSION, "client", 1),
        wire.Cancel(2, 77),
        wire.Status(3),
        wire.Clear(4),
        wire.Evict(5, bytes(32)),
        wire.Fetch(6, "rule", bytes(32)),
        wire.Compile(7, "grammar", bytes(32), bytes(32), b"x"),
        wire.Commit(8, 1, "grammar", bytes(32), 1, 1, 1),
    )
]
PIECES = st.lists(st.sampled_from(VALID) | st.binary(max_size=60), min_size=1, max_size=8)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pieces=PIECES, cut=st.integers(0, 30))
def test_any_stream_ends_at_most_its_own_connection(live: Live, pieces: list[bytes], cut: int) -> None:
    stream = VALID[0] + b"".join(pieces)
    with socket.socket(socket.AF_UNIX) as endpoint:
        endpoint.connect(str(live.namespace.socket_path))
        with suppress(OSError):
            endpoint.sendall(stream[: len(stream) - cut])
            endpoint.shutdown(socket.SHUT_WR)
            endpoint.settimeout(5)
            while endpoint.recv(1 << 16):
                pass
    stats = live.askers[0].stats()
    assert stats["manager"]["state"] == "serving"


@BOUNDED
@given(EDITS, LENGTHS)
def test_any_descriptor_in_place_of_an_image(edits: list[Edit], length: float) -> None:
    descriptor = os.memfd_create("fuzz", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, edited(bytes(HEADER_BYTES) + IMAGE, edits, length))
        os.fchmod(descriptor, SEALED_MODE)
        with pytest.raises(SegmentError):
            map_segment(descriptor)
    finally:
        os.close(descriptor)
