"""The local table: bounded, valid for one generation of one cache, and counting its hits."""

from __future__ import annotations

import threading
from typing import cast

from shmcache.client.attachment import Attachment
from shmcache.client.local_table import Held, LocalTable
from shmcache.matcher.compiled_grammar import CompiledGrammar
from shmcache.memory import layout
from shmcache.memory.control import ControlReader, ControlWriter, control_image
from shmcache.memory.layout import recency_size_bytes
from shmcache.memory.names import Namespace
from shmcache.memory.reader import SharedCache
from shmcache.memory.recency import ClientCounts, Recency, _header
from shmcache.memory.words import words_of


def _grammar(number: int) -> CompiledGrammar:
    return cast(CompiledGrammar, f"grammar {number}")


class Shared:
    """An attachment to shared memory in private memory, and the writer's end of it."""

    def __init__(self) -> None:
        image = control_image(home_count=64, row_count=4)
        self.control = ControlWriter(image)
        buffer = bytearray(recency_size_bytes(64, 4))
        for position, value in enumerate(_header(self.control)):
            words_of(buffer)[position] = value
        self.recency = Recency(buffer, self.control)
        shared = SharedCache(Namespace.of("unused"), ControlReader(image))
        self.attachment = Attachment(shared, self.recency)
        self.attachment.use_row(self.recency.row(2))

    def held(self, number: int, slot: int | None = None) -> Held:
        return Held(_grammar(number), self.attachment, self.control.generation, slot)


def test_what_was_put_is_found() -> None:
    shared, table = Shared(), LocalTable()
    assert table.find("a", shared.attachment) is None
    table.put("a", shared.held(1), shared.attachment)
    found = table.find("a", shared.attachment)
    assert found is not None
    assert found.grammar == _grammar(1)


def test_a_clear_by_anyone_empties_it() -> None:
    shared, table = Shared(), LocalTable()
    table.put("a", shared.held(1), shared.attachment)
    table.put("b", shared.held(2), shared.attachment)
    shared.control.next_generation()
    assert table.find("a", shared.attachment) is None
    assert len(table) == 0


def test_a_grammar_of_an_older_generation_is_never_put() -> None:
    shared, table = Shared(), LocalTable()
    old = shared.held(1)
    shared.control.next_generation()
    table.put("a", old, shared.attachment)
    assert len(table) == 0
    assert table.find("a", shared.attachment) is None


def test_a_grammar_of_another_cache_with_the_same_generation_is_never_found() -> None:
    first, second, table = Shared(), Shared(), LocalTable()
    assert first.control.generation == second.control.generation
    table.put("a", first.held(1), second.attachment)
    assert len(table) == 0
    table.put("a", first.held(1), first.attachment)
    assert table.find("a", second.attachment) is None


def test_private_grammars_are_held_without_a_cache_and_dropped_when_one_appears() -> None:
    nothing, table = Attachment(), LocalTable()
    held = Held(_grammar(1), nothing, nothing.generation, None)
    table.put("a", held, nothing)
    assert table.find("a", nothing) is held
    assert table.find("a", Shared().attachment) is None


def test_the_least_recently_used_goes_first() -> None:
    shared, table = Shared(), LocalTable(3)
    for number, name in enumerate("abc"):
        table.put(name, shared.held(number), shared.attachment)
    assert table.find("a", shared.attachment) is not None
    table.put("d", shared.held(4), shared.attachment)
    assert table.find("b", shared.attachment) is None
    assert all(table.find(name, shared.attachment) for name in "acd")
    assert len(table) == 3


def test_hits_are_counted_and_noted_as_uses() -> None:
    shared, table = Shared(), LocalTable()
    table.put("a", shared.held(1, slot=5), shared.attachment)
    table.put("b", shared.held(2, slot=None), shared.attachment)
    for _ in range(3):
        table.find("a", shared.attachment)
    table.find("b", shared.attachment)
    assert shared.recency.counts(2) == ClientCounts(local_hits=4)
    assert shared.recency.last_used_ns(5, (1 << 64) - 1) > 0
    assert shared.recency.last_used_ns(4, (1 << 64) - 1) == 0


def test_counts_made_before_the_row_was_given_are_not_lost() -> None:
    shared = Shared()
    shared.attachment.leave_row()
    shared.attachment.note_miss()
    shared.attachment.note_hit(None)
    shared.attachment.note_private()
    shared.attachment.note_coalesced()
    assert shared.recency.counts(1) == ClientCounts()
    shared.attachment.use_row(shared.recency.row(1))
    assert shared.recency.counts(1) == ClientCounts(1, 0, 1, 1, 1)
    shared.attachment.note_miss()
    assert shared.recency.counts(1).misses == 2


def test_a_local_hit_is_never_counted_in_a_row_that_was_given_back() -> None:
    attachment = Attachment()
    lent = memoryview(bytearray(8 * layout.ROW_WORDS)).cast("Q")
    attachment.use_row(lent)
    leave_row = attachment.leave_row

    class TakenByAnotherThreadFirst:
        def __enter__(self) -> None:
            attachment._lock = threading.Lock()
            leave_row()

        def __exit__(self, *_: object) -> None:
            pass

    attachment._lock = TakenByAnotherThreadFirst()  # type: ignore[assignment]
    attachment.note_local_hit(None)
    assert not any(lent)
    assert attachment._row[layout.ROW_LOCAL_HITS] == 1
