"""From a key to a mapped payload: hits are right, and everything odd is a miss."""

from __future__ import annotations

import logging
import os

import pytest

from shmcache.memory import reader as reader_module
from shmcache.memory.layout import Tier
from shmcache.memory.names import Namespace, object_path
from shmcache.memory.reader import SharedCache
from shmcache.memory.segments import create_segment, unlink_segment
from tests.memory.support import Cache, key_of


def test_a_hit_is_the_payload_that_was_published(cache: Cache) -> None:
    entry = cache.add(key_of(1), b"payload")
    found = SharedCache.open(cache.namespace).open_entry(key_of(1))
    assert found is not None
    assert found[0] == entry
    assert bytes(found[1].payload) == b"payload"


def test_an_unknown_key_is_a_miss(cache: Cache) -> None:
    assert SharedCache.open(cache.namespace).open_entry(key_of(1)) is None


def test_no_cache(namespace: Namespace) -> None:
    with pytest.raises(FileNotFoundError):
        SharedCache.open(namespace)


def test_a_missing_file_is_a_miss(cache: Cache) -> None:
    entry = cache.add(key_of(1), b"payload")
    unlink_segment(cache.namespace.data_name(cache.control.instance, entry.serial))
    assert SharedCache.open(cache.namespace).open_entry(key_of(1)) is None


def test_mappings_are_reused_by_serial(cache: Cache) -> None:
    cache.add(key_of(1), b"payload")
    reader = SharedCache.open(cache.namespace)
    first, second = reader.open_entry(key_of(1)), reader.open_entry(key_of(1))
    assert first is not None
    assert second is not None
    assert first[1] is second[1]


def test_kept_mappings_are_bounded(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader_module, "MAPPINGS_MAX", 3)
    for number in range(6):
        cache.add(key_of(number), b"payload %d" % number)
    before = len(os.listdir("/proc/self/fd"))
    reader = SharedCache.open(cache.namespace)
    opened = len(os.listdir("/proc/self/fd"))
    for number in range(6):
        found = reader.open_entry(key_of(number))
        assert found is not None
        assert bytes(found[1].payload) == b"payload %d" % number
        del found
    assert len(os.listdir("/proc/self/fd")) - opened <= 3
    reader.drop_mappings()
    assert len(os.listdir("/proc/self/fd")) == opened >= before


def test_a_retired_entry_misses_though_its_mapping_is_kept(cache: Cache) -> None:
    entry = cache.add(key_of(1), b"payload")
    reader = SharedCache.open(cache.namespace)
    found = reader.open_entry(key_of(1))
    assert found is not None
    cache.index.retire(entry.slot)
    assert reader.open_entry(key_of(1)) is None
    assert bytes(found[1].payload) == b"payload"


def test_a_clear_makes_grammars_miss_and_keeps_vocabularies(cache: Cache) -> None:
    cache.add(key_of(1), b"grammar")
    cache.add(key_of(2), b"vocabulary", tier=Tier.VOCABULARY)
    reader = SharedCache.open(cache.namespace)
    assert reader.open_entry(key_of(1)) is not None
    cache.index.raise_generation()
    assert reader.open_entry(key_of(1)) is None
    assert reader.open_entry(key_of(2)) is not None


TEXT = bytes(range(32))


def test_a_text_hits_the_entry_that_was_made_of_it(cache: Cache) -> None:
    entry = cache.add(key_of(1), b"payload", text_digest=TEXT)
    cache.add(key_of(2), b"of no text")
    reader = SharedCache.open(cache.namespace)
    found = reader.open_text(TEXT)
    assert found is not None
    assert found[0] == entry
    assert bytes(found[1].payload) == b"payload"
    assert reader.open_text(bytes(reversed(TEXT))) is None


def test_a_text_misses_once_its_entry_is_retired_or_of_an_older_generation(cache: Cache) -> None:
    entry = cache.add(key_of(1), b"payload", text_digest=TEXT)
    reader = SharedCache.open(cache.namespace)
    cache.index.raise_generation()
    assert reader.open_text(TEXT) is None
    cache.index.retire(entry.slot)
    cache.index.release(entry.slot)
    again = cache.add(key_of(1), b"again", text_digest=TEXT)
    found = reader.open_text(TEXT)
    assert found is not None
    assert found[0] == again
    cache.index.retire(again.slot)
    assert reader.open_text(TEXT) is None


def test_a_hint_to_a_slot_that_has_another_entry_now_is_a_miss(cache: Cache) -> None:
    entry = cache.add(key_of(1, fingerprint=7), b"payload", text_digest=TEXT)
    cache.index.retire(entry.slot)
    cache.index.release(entry.slot)
    other = cache.add(key_of(2, fingerprint=7), b"another", text_digest=bytes(31) + b"x")
    assert other.slot == entry.slot
    assert SharedCache.open(cache.namespace).open_text(TEXT) is None


def test_two_texts_whose_hints_look_alike_are_told_apart(cache: Cache) -> None:
    alike = TEXT[:16] + bytes(16)
    first = cache.add(key_of(1), b"first", text_digest=TEXT)
    reader = SharedCache.open(cache.namespace)
    assert reader.open_text(alike) is None
    second = cache.add(key_of(2), b"second", text_digest=alike)
    found = reader.open_text(alike)
    assert found is not None
    assert found[0] == second
    # The second one's hint has taken the place of the first one's.
    assert reader.open_text(TEXT) is None
    assert reader.open_entry(key_of(1)) is not None
    assert first.slot != second.slot


@pytest.mark.parametrize("before", [True, False])
def test_a_clear_while_a_text_is_mapped_is_a_miss(cache: Cache, monkeypatch: pytest.MonkeyPatch, before: bool) -> None:
    cache.add(key_of(1), b"payload", text_digest=TEXT)
    reader = SharedCache.open(cache.namespace)
    real = reader_module.map_segment

    def clear_and_map(source: str | int) -> object:
        if before:
            cache.index.raise_generation()
        mapping = real(source)
        cache.index.raise_generation()
        return mapping

    monkeypatch.setattr(reader_module, "map_segment", clear_and_map)
    assert reader.open_text(TEXT) is None


def test_a_clear_while_mapping_is_a_miss(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.add(key_of(1), b"payload")
    reader = SharedCache.open(cache.namespace)
    real = reader_module.map_segment

    def clear_then_map(source: str | int) -> object:
        cache.index.raise_generation()
        return real(source)

    monkeypatch.setattr(reader_module, "map_segment", clear_then_map)
    assert reader.open_entry(key_of(1)) is None


def test_eviction_while_mapping_is_a_miss(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = cache.add(key_of(1), b"payload")
    reader = SharedCache.open(cache.namespace)
    real = reader_module.map_segment

    def map_then_evict(source: str | int) -> object:
        mapping = real(source)
        cache.index.retire(entry.slot)
        return mapping

    monkeypatch.setattr(reader_module, "map_segment", map_then_evict)
    assert reader.open_entry(key_of(1)) is None


@pytest.mark.parametrize("wrong", ["key", "generation", "tier", "payload", "garbage", "mode"])
def test_a_file_that_is_not_the_entrys_is_refused_and_logged(
    cache: Cache, wrong: str, caplog: pytest.LogCaptureFixture
) -> None:
    entry = cache.add(key_of(1), b"payload")
    name = cache.namespace.data_name(cache.control.instance, entry.serial)
    unlink_segment(name)
    key = key_of(2) if wrong == "key" else key_of(1)
    generation = 7 if wrong == "generation" else entry.generation
    tier = Tier.RULE if wrong == "tier" else Tier.GRAMMAR
    create_segment(name, [b"pay" if wrong == "payload" else b"payload"], key=key, generation=generation, tier=tier)
    if wrong == "garbage":
        object_path(name).write_bytes(b"x" * 200)
    if wrong == "mode":
        object_path(name).chmod(0o666)
    with caplog.at_level(logging.WARNING, "shmcache"):
        assert SharedCache.open(cache.namespace).open_entry(key_of(1)) is None
    assert name in caplog.text
