"""The list of mutants: one defence less in each, and the tests of which at least one must then fail.

Owns the patches. Must never be imported by anything but the plugin and the runner beside it: production code knows of
no mutant. A patch replaces a function or method in memory, in a process of its own.
"""

from __future__ import annotations

import inspect
import os
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

CORE = "tests/manager/test_core.py"
INDEX = "tests/memory/test_index.py"


@dataclass(frozen=True, slots=True)
class Mutant:
    """``name`` says what is taken away; ``killers`` are test ids, ``apply`` takes it away."""

    name: str
    apply: Callable[[], None]
    killers: tuple[str, ...]


def _rewrite(owner: Any, name: str, old: str, new: str) -> Any:
    """The function ``owner.name`` with a piece of its source replaced; ValueError when the piece is not there."""
    function = inspect.unwrap(getattr(owner, name))
    source = textwrap.dedent(inspect.getsource(function))
    if source.count(old) != 1:
        raise ValueError(f"{name} has no longer exactly one {old!r}")
    scope: dict[str, Any] = {}
    exec(compile(source.replace(old, new), f"<mutant of {name}>", "exec"), function.__globals__, scope)
    return scope[name]


def _no_generation_check_at_commit() -> None:
    from shmcache.manager.store import Store

    Store.is_fenced = lambda self, tier, lease_generation: False  # type: ignore[method-assign]


def _no_generation_check_at_publication() -> None:
    from shmcache.memory.account import Entry

    valid_in = Entry.is_valid_in
    from shmcache.memory import index

    publish = index.IndexWriter.publish

    def unfenced(self: Any, slot: int, **figures: Any) -> Any:
        Entry.is_valid_in = lambda self, generation: True  # type: ignore[method-assign]
        try:
            return publish(self, slot, **figures)
        finally:
            Entry.is_valid_in = valid_in  # type: ignore[method-assign]

    index.IndexWriter.publish = unfenced  # type: ignore[method-assign]


def _check_and_charge_apart() -> None:
    """The generation is compared when room is granted; what is committed later is charged to whichever is current."""
    from shmcache.manager.store import Store
    from shmcache.memory.layout import SlotState, Tier

    commit = Store.commit

    def charge_only(self: Any, asked: Any, lease_generation: int) -> str:
        entry = self.entries.get(asked.serial)
        if entry is not None and entry.state is SlotState.FILLING and entry.tier is not Tier.VOCABULARY:
            self.entries._put(replace(entry, generation=self.entries.generation))
            return commit(self, asked, self.entries.generation)
        return commit(self, asked, lease_generation)

    Store.commit = charge_only  # type: ignore[method-assign]


def _no_fence_for_rules() -> None:
    from shmcache.manager.store import Store
    from shmcache.memory.layout import Tier

    is_fenced = Store.is_fenced
    Store.is_fenced = (  # type: ignore[method-assign]
        lambda self, tier, lease_generation: tier is not Tier.RULE and is_fenced(self, tier, lease_generation)
    )


def _version_word_not_compared() -> None:
    """A reader takes a record that changed while it was copied."""
    from shmcache.memory import index, layout

    def copy(self: Any, slot: int) -> list[int] | None:
        start = self._records_start + layout.RECORD_WORDS * slot
        record: list[int] = self._words[start : start + layout.RECORD_WORDS].tolist()
        return record if record[layout.RECORD_VERSION] else None

    index.IndexReader._copy = copy  # type: ignore[method-assign]


def _version_word_not_zeroed() -> None:
    """A writer changes a record that looks whole meanwhile."""
    from shmcache.memory import index, layout, steps

    write_record = index.IndexWriter._write_record

    def careless(self: Any, slot: int, version: int, fields: list[int], fingerprint: int) -> None:
        start = self._records_start + layout.RECORD_WORDS * slot
        store = steps.store

        def skip_zero(words: memoryview, position: int, value: int) -> None:
            if not (position == start and value == 0):
                store(words, position, value)

        steps.store = skip_zero
        try:
            write_record(self, slot, version, fields, fingerprint)
        finally:
            steps.store = store

    index.IndexWriter._write_record = careless  # type: ignore[method-assign]


def _no_second_generation_load() -> None:
    from shmcache.memory import index, layout

    def is_unchanged(self: Any, entry: Any) -> bool:
        return bool(self._words[self._records_start + layout.RECORD_WORDS * entry.slot] == entry.version)

    index.IndexReader.is_unchanged = is_unchanged  # type: ignore[method-assign]


def _no_second_version_load() -> None:
    from shmcache.memory import index, layout
    from shmcache.memory.layout import Tier

    def is_unchanged(self: Any, entry: Any) -> bool:
        return entry.tier is Tier.VOCABULARY or self._words[layout.GENERATION] == entry.generation

    index.IndexReader.is_unchanged = is_unchanged  # type: ignore[method-assign]


def _whole_key_not_compared() -> None:
    """A look-up believes the fingerprint."""
    from shmcache.memory import index, layout

    look_up = index.IndexReader.look_up

    def credulous(self: Any, key: bytes) -> Any:
        home = index.fingerprint_of(key)
        for slot in self.window(key):
            record = self._copy(slot) if self.fingerprint(slot) == home else None
            if record is not None:
                return look_up(self, index.words_to_key(record[layout.RECORD_KEY : layout.RECORD_KEY + 4]))
        return None

    index.IndexReader.look_up = credulous  # type: ignore[method-assign]


def _segment_header_not_compared() -> None:
    from shmcache.memory.segments import SegmentHeader

    SegmentHeader.is_of = lambda self, entry, instance: True  # type: ignore[method-assign]


def _no_fallocate() -> None:
    from shmcache.memory import control, objects, recency, segments

    call = "steps.posix_fallocate(descriptor, 0, size_bytes)"
    building = _rewrite(objects, "building", call, "os.ftruncate(descriptor, size_bytes)")
    for module in (objects, control, recency, segments):
        module.building = building  # type: ignore[attr-defined]


def _no_lease_probe() -> None:
    """Nobody is taken to map anything."""
    from shmcache.manager import shelf
    from shmcache.memory import lease

    lease.is_unused = lambda descriptor: True
    shelf.is_unused = lease.is_unused


def _commit_not_idempotent() -> None:
    """A commit of what is READY already is taken for one without room."""
    from shmcache.manager.store import Store
    from shmcache.memory.layout import SlotState

    commit = Store.commit

    def again(self: Any, asked: Any, lease_generation: int) -> str:
        entry = self.entries.get(asked.serial)
        if entry is not None and entry.state is SlotState.READY and self.entries.is_current(entry):
            self.retire(entry)
            return "unindexed"
        return commit(self, asked, lease_generation)

    Store.commit = again  # type: ignore[method-assign]


def _charged_twice() -> None:
    """A new generation subtracts what it ends, and the entries are subtracted once more as they are freed."""
    from shmcache.memory.account import Totals

    after_clear = Totals.after_clear

    def subtract(self: Any) -> Any:
        cleared = after_clear(self)
        return replace(cleared, retired_bytes=self.retired_bytes)

    Totals.after_clear = subtract  # type: ignore[method-assign]


def _owner_and_mode_not_checked() -> None:
    from shmcache.memory import control, objects, recency, segments

    def trust(descriptor: int, name: str, *, mode: int) -> os.stat_result:
        return os.fstat(descriptor)

    for module in (objects, control, recency, segments):
        module.check_descriptor = trust  # type: ignore[attr-defined]


def _peer_not_checked() -> None:
    from shmcache.manager.server import Server

    Server._admit = _rewrite(Server, "_admit", "if uid != self.namespace.uid:", "if False:")  # type: ignore[method-assign]


def _no_quota_of_waiting_compiles() -> None:
    from shmcache.manager.compiles import Compiles

    Compiles.waiting_of = lambda self, client: 0  # type: ignore[method-assign]


def _join_after_leaving() -> None:
    """A client that is gone when it is welcomed stays in the core (a bug that the simulation found)."""
    from shmcache.manager import client_side
    from shmcache.manager import events as ev

    hello = client_side.ClientSide._hello

    def late(self: Any, client: Any, message: Any) -> None:
        apply, joined = self._apply, list[Any]()
        self._apply = lambda event: joined.append(event) if isinstance(event, ev.ClientJoined) else apply(event)
        try:
            hello(self, client, message)
        finally:
            self._apply = apply
        for event in joined:
            apply(event)

    client_side.ClientSide._hello = late  # type: ignore[method-assign]


def _retired_bytes_are_free() -> None:
    """Room is given while readers still map what was retired for it."""
    from shmcache.manager.entries import Entries
    from shmcache.memory.layout import SlotState

    Entries.held_bytes = lambda self, tier: sum(  # type: ignore[method-assign]
        cell[0] for (of, state, _), cell in self._sums.items() if of is tier and state is not SlotState.ZOMBIE
    )


MUTANTS = (
    Mutant(
        "no generation check at commit",
        _no_generation_check_at_commit,
        (f"{CORE}::test_a_segment_allocated_before_the_clear_is_fenced_at_its_commit",),
    ),
    Mutant(
        "no generation check at publication",
        _no_generation_check_at_publication,
        (f"{INDEX}::test_the_fence_refuses_a_compile_of_an_older_generation",),
    ),
    Mutant(
        "check and charge apart",
        _check_and_charge_apart,
        (f"{CORE}::test_a_segment_allocated_before_the_clear_is_fenced_at_its_commit",),
    ),
    Mutant("no fence for rules", _no_fence_for_rules, (f"{CORE}::test_the_fence",)),
    Mutant(
        "version word not compared",
        _version_word_not_compared,
        (f"{INDEX}::test_a_change_at_any_store_between_any_two_loads_gives_no_mixture",),
    ),
    Mutant(
        "version word not zeroed",
        _version_word_not_zeroed,
        (
            f"{INDEX}::test_a_change_at_any_store_between_any_two_loads_gives_no_mixture",
            f"{INDEX}::test_a_writer_killed_before_any_store_leaves_an_index_that_repairs",
        ),
    ),
    Mutant(
        "no second generation load",
        _no_second_generation_load,
        ("tests/memory/test_reader.py::test_a_clear_while_mapping_is_a_miss",),
    ),
    Mutant(
        "no second version load",
        _no_second_version_load,
        ("tests/memory/test_reader.py::test_eviction_while_mapping_is_a_miss",),
    ),
    Mutant(
        "whole key not compared",
        _whole_key_not_compared,
        (f"{INDEX}::test_keys_with_one_fingerprint_are_told_apart",),
    ),
    Mutant(
        "segment header not compared",
        _segment_header_not_compared,
        ("tests/memory/test_reader.py::test_a_file_that_is_not_the_entrys_is_refused_and_logged",),
    ),
    Mutant(
        "no fallocate",
        _no_fallocate,
        ("tests/memory/test_segments.py::test_memory_is_allocated_before_it_is_written",),
    ),
    Mutant(
        "no lease probe",
        _no_lease_probe,
        ("tests/manager/test_server.py::test_retired_bytes_are_exact_until_the_last_reader_lets_go",),
    ),
    Mutant("commit not idempotent", _commit_not_idempotent, (f"{CORE}::test_a_commit_said_twice_is_charged_once",)),
    Mutant("subtracted twice", _charged_twice, (f"{INDEX}::test_the_account_is_the_sum_over_the_slots_at_every_step",)),
    Mutant("retired bytes are free", _retired_bytes_are_free, (f"{CORE}::test_retired_bytes_count_against_the_limit",)),
    Mutant(
        "owner and mode not checked",
        _owner_and_mode_not_checked,
        (
            "tests/memory/test_segments.py::test_another_mode_is_refused",
            "tests/memory/test_segments.py::test_another_owner_is_refused",
        ),
    ),
    Mutant("peer not checked", _peer_not_checked, ("tests/manager/test_server.py::test_another_user_is_refused",)),
    Mutant(
        "no quota of waiting compiles",
        _no_quota_of_waiting_compiles,
        (f"{CORE}::test_a_client_waits_for_so_many_compiles_at_once",),
    ),
    Mutant(
        "join after leaving",
        _join_after_leaving,
        ("tests/manager/test_server.py::test_a_client_that_is_gone_when_it_is_welcomed_leaves_nothing",),
    ),
)

BY_NAME = {mutant.name: mutant for mutant in MUTANTS}
