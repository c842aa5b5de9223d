"""The core under any sequence of events, against a model that is one dictionary.

The model knows, per key, the value that the newest generation's compile gave; a clear empties it. Whatever happens,
a look-up finds nothing that the model does not have (in unlimited mode: exactly what it has), the account equals the
slots, every request is answered once and with a value of its own key, and when the faults stop everything finishes.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from shmcache.errors import LimitError, SourceError
from shmcache.manager import effects as fx
from shmcache.manager import events as ev
from shmcache.manager.core import Restored
from shmcache.manager.policy import Limits, Policy
from shmcache.memory.layout import SlotState, Tier
from tests.manager.world import PAGE, VOCABULARY, World, key

CLIENTS = (1, 2, 3)
NUMBERS = st.integers(1, 6)
PAGES = st.integers(1, 3).map(lambda count: count * PAGE)
ERRORS = st.sampled_from(
    [
        SourceError("bad").to_plain(),
        LimitError("slow", limit="seconds", value=1).to_plain(),
        LimitError("big", limit="states", value=1).to_plain(),
        {"code": "KEY_MISMATCH", "message": "", "details": {}},
    ]
)


class CoreMachine(RuleBasedStateMachine):
    """One namespace with three clients and two workers."""

    limit_bytes = -1

    @initialize(leases_work=st.booleans())
    def begin(self, leases_work: bool) -> None:
        self.world = World(Policy(limit_bytes=self.limit_bytes, waiting_per_client_max=4)).with_vocabulary(1)
        self.world.leases_work = leases_work
        self.world.join(*CLIENTS)
        self.model: dict[tuple[Tier, bytes], int] = {}
        self.rooms: dict[tuple[int, Tier, bytes], int] = {}
        self.asked: dict[tuple[int, int], bytes] = {}
        self.gone: set[tuple[int, int]] = set()
        self.last_job = max(self.world.jobs, default=0)

    # --- clients -----------------------------------------------------------------------------------------------------

    @rule(
        client=st.sampled_from(CLIENTS),
        numbers=st.lists(NUMBERS, min_size=1, max_size=3, unique=True),
        states_max=st.sampled_from([0, 10]),
    )
    def ask(self, client: int, numbers: list[int], states_max: int) -> None:
        self.world.start_workers()
        for number in numbers:
            request = self.world.ask(client, number, Limits(states_max=states_max))
            self.asked[client, request] = key(number)

    @precondition(lambda self: self.asked)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        client, request = data.draw(st.sampled_from(sorted(self.asked)))
        self.world.step(ev.CancelAsked(client, request))
        self.gone.add((client, request))

    @rule(client=st.sampled_from(CLIENTS))
    def leave_and_come_back(self, client: int) -> None:
        self.gone |= {place for place in self.asked if place[0] == client}
        # Client 1 keeps the vocabulary in use, so that grammars can be asked for.
        self.world.step(ev.ClientLeft(client))
        self.world.step(ev.ClientJoined(client, VOCABULARY))

    @rule(client=st.sampled_from(CLIENTS))
    def clear(self, client: int) -> None:
        retired = self.world.core.entries.account()
        self.world.clear(client)
        self.model.clear()
        account = self.world.core.entries.account()
        assert account.charged_bytes[:2] == (0, 0)
        assert account.retired_bytes == retired.retired_bytes + sum(retired.charged_bytes[:2])

    @rule(client=st.sampled_from(CLIENTS), number=NUMBERS)
    def evict(self, client: int, number: int) -> None:
        self.world.step(ev.EvictAsked(client, self.world.next_request(), key(number)))
        self.model.pop((Tier.GRAMMAR, key(number)), None)
        self.model.pop((Tier.RULE, key(number)), None)

    @rule(number=NUMBERS)
    def map_or_unmap(self, number: int) -> None:
        serial = self.world.look_up(key(number))
        if serial is not None:
            self.world.mapped ^= {serial}
        elif self.world.mapped:
            self.world.mapped.pop()

    # --- workers -----------------------------------------------------------------------------------------------------

    def draw_job(self, data: st.DataObject) -> fx.SendJob:
        return self.world.jobs[data.draw(st.sampled_from(sorted(self.world.jobs)))]

    @precondition(lambda self: self.world.jobs)
    @rule(data=st.data(), tier=st.sampled_from([Tier.GRAMMAR, Tier.RULE]), number=NUMBERS, pages=PAGES)
    def alloc(self, data: st.DataObject, tier: Tier, number: int, pages: int) -> None:
        job = self.draw_job(data)
        wanted = job.key if tier is Tier.GRAMMAR else key(number)
        room = self.world.alloc(job, pages, tier=tier, wanted=wanted)
        is_current = job.generation == self.world.generation
        assert is_current or room.outcome == "fenced"
        if room.outcome == "granted":
            self.rooms[job.job, tier, wanted] = room.serial

    @precondition(lambda self: self.rooms)
    @rule(data=st.data(), pages=PAGES, is_sound=st.sampled_from([True, True, True, False]))
    def commit(self, data: st.DataObject, pages: int, is_sound: bool) -> None:
        number, tier, wanted = data.draw(st.sampled_from(sorted(self.rooms)))
        serial = self.rooms.pop((number, tier, wanted))
        job = self.world.jobs.get(number)
        if job is None:
            return
        payload = ("image", job.key)
        figures = {"payload": payload, "charged_bytes": pages, "tier": tier, "wanted": wanted, "is_sound": is_sound}
        outcome = self.world.commit(job, serial, **figures)
        if job.generation != self.world.generation:
            assert outcome == "fenced"
        if outcome == "ready":
            assert is_sound
            self.ready_once(job, tier, wanted, serial, figures)

    def ready_once(self, job: fx.SendJob, tier: Tier, wanted: bytes, serial: int, figures: dict[str, Any]) -> None:
        self.model[tier, wanted] = serial
        before = self.world.core.entries.account()
        assert self.world.commit(job, serial, **figures) == "ready", "a commit said twice"
        assert self.world.core.entries.account() == before

    @precondition(lambda self: self.world.jobs)
    @rule(data=st.data())
    def commit_outside(self, data: st.DataObject) -> None:
        job = self.draw_job(data)
        expected = "unindexed" if job.generation == self.world.generation else "fenced"
        assert self.world.commit(job, 0, payload=("image", job.key)) == expected

    @precondition(lambda self: self.world.jobs)
    @rule(data=st.data(), pages=PAGES, taken=PAGES)
    def alloc_and_commit(self, data: st.DataObject, pages: int, taken: int) -> None:
        job = self.draw_job(data)
        room = self.world.alloc(job, pages)
        if room.outcome == "granted":
            figures = {"payload": ("image", job.key), "charged_bytes": taken}
            outcome = self.world.commit(job, room.serial, **figures)
            assert outcome == "ready" or taken > pages
            if outcome == "ready":
                self.ready_once(job, Tier.GRAMMAR, job.key, room.serial, figures)

    @precondition(lambda self: self.world.jobs)
    @rule(data=st.data(), error=ERRORS)
    def fail(self, data: st.DataObject, error: dict[str, object]) -> None:
        job = self.draw_job(data)
        self.world.step(ev.JobFailed(job.worker, job.job, error))
        self.world.done(job)

    @precondition(lambda self: self.world.jobs)
    @rule(data=st.data())
    def done(self, data: st.DataObject) -> None:
        self.world.done(self.draw_job(data))

    @precondition(lambda self: self.world.core.workers.numbers())
    @rule(data=st.data())
    def die(self, data: st.DataObject) -> None:
        self.world.die(data.draw(st.sampled_from(self.world.core.workers.numbers())))

    @rule(seconds=st.sampled_from([0.0, 1.0, 40.0]))
    def time_passes(self, seconds: float) -> None:
        self.world.advance(seconds)
        for worker in list(self.world.killed):
            if self.world.core.workers.get(worker) is not None:
                self.world.die(worker)
        self.world.start_workers()

    @rule()
    def drain(self) -> None:
        self.world.drain()

    @rule(number=NUMBERS, tier=st.sampled_from([Tier.GRAMMAR, Tier.RULE]))
    def lose_a_file(self, number: int, tier: Tier) -> None:
        """Somebody unlinked it; whoever asks next finds out."""
        serial = self.world.look_up(key(number), tier)
        if serial is not None:
            self.world.step(ev.EntryLost(serial))
            self.model.pop((tier, key(number)))

    @rule()
    def the_manager_dies(self) -> None:
        """The next one goes on with the slots; of requests, jobs and promised room nothing is left."""
        old = self.world
        for serial, slot in list(old.slots.items()):
            if slot.state is SlotState.FILLING:
                del old.slots[serial]
        self.world = self.successor()
        self.world.mapped = old.mapped & set(self.world.slots)
        self.world.leases_work = old.leases_work
        for client in CLIENTS:
            self.world.step(ev.ClientJoined(client, VOCABULARY))
        self.rooms.clear()
        self.asked.clear()
        self.gone.clear()
        if self.world.look_up(VOCABULARY, Tier.VOCABULARY) is None:
            self.world.with_vocabulary(1)

    # --- what must hold ----------------------------------------------------------------------------------------------

    @invariant()
    def no_look_up_finds_what_the_model_has_not(self) -> None:
        if not hasattr(self, "world"):
            return
        found = {
            (slot.tier, slot.key): serial
            for serial, slot in self.world.slots.items()
            if slot.tier is not Tier.VOCABULARY
            and slot.state is SlotState.READY
            and slot.generation == self.world.generation
        }
        if self.limit_bytes < 0:
            assert found == self.model
        else:
            assert found.items() <= self.model.items()
            for tier in (Tier.GRAMMAR, Tier.RULE):
                held = sum(slot.charged_bytes for slot in self.world.slots.values() if slot.tier is tier)
                assert held <= self.world.policy.limit_of(tier)

    @invariant()
    def every_answer_is_of_the_key_that_was_asked(self) -> None:
        if not hasattr(self, "world"):
            return
        for place, wanted in self.asked.items():
            told = self.world.told.get(place)
            if told is not None and isinstance(told.effect, fx.SendImage):
                assert told.image == ("image", wanted)
            elif told is not None and isinstance(told.effect, fx.SendEntry):
                assert told.effect.asked.key == wanted

    def teardown(self) -> None:
        """The faults stop; everybody gets an answer, and every byte of an old generation comes back."""
        if not hasattr(self, "world"):
            return
        world = self.world
        for _ in range(100):
            for worker in list(world.killed):
                if world.core.workers.get(worker) is not None:
                    world.die(worker)
            world.start_workers()
            for job in list(world.jobs.values()):
                world.commit(job, 0, payload=("image", job.key))
                world.done(job)
            world.advance(20.0)
        waiting = set(self.asked) - self.gone
        assert waiting <= set(world.told), "a request was never answered"
        world.mapped.clear()
        # Where the kernel cannot tell, who is here at the first probe is waited for.
        world.drain()
        for client in CLIENTS:
            world.step(ev.ClientLeft(client))
        if not world.leases_work:
            for worker in world.core.workers.numbers():
                world.die(worker)
        world.drain()
        account = world.core.entries.account()
        assert (account.retired_bytes, account.filling_bytes) == (0, 0)
        self.a_new_manager_finds_the_same()

    def successor(self) -> World:
        """A new manager over the slots as they are."""
        core = self.world.core
        entries = [core.entries.get(serial) for serial in self.world.slots]
        restored = Restored(core.entries.generation, core.entries.serial_last, tuple(e for e in entries if e))
        return World(self.world.policy, restored)

    def a_new_manager_finds_the_same(self) -> None:
        other = self.successor()
        other.drain()
        assert other.slots == self.world.slots
        assert other.core.entries.account() == self.world.core.entries.account()


class FiniteCoreMachine(CoreMachine):
    """The same with a limit that is always felt."""

    limit_bytes = 12 * PAGE


@pytest.mark.parametrize("machine", [CoreMachine, FiniteCoreMachine], ids=["unlimited", "finite"])
def test_the_core_agrees_with_a_dictionary(machine: type[CoreMachine]) -> None:
    run_state_machine_as_test(
        machine, settings=settings(max_examples=120, stateful_step_count=50, deadline=None, print_blob=True)
    )
