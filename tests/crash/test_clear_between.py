"""A clear between any two steps of a worker that makes a grammar and its rows: nothing old is in the new generation."""

from __future__ import annotations

import sys

import pytest

from shmcache.manager import wire
from shmcache.memory.layout import Tier
from shmcache.memory.lease import ignore_lease_signals
from tests.crash.explorer import own_namespace
from tests.crash.invariants import Facts, broken_at_rest
from tests.crash.rig import Rig, key_of
from tests.crash.seam import before_every_step

ROWS = ("row a", "row b")


class ClearingAt:
    """Clears before the n-th step that is not the manager's; the manager's own are not to be interrupted by itself."""

    def __init__(self, rig: Rig, step: int) -> None:
        self._rig = rig
        self._step = step
        self.count = 0
        self._is_clearing = False

    def __call__(self, name: str) -> None:
        if self._rig.is_turning or self._is_clearing:
            return
        if self.count == self._step:
            self._is_clearing = True
            self._rig.ask(wire.Clear)
            self._is_clearing = False
        self.count += 1


def clear_at(step: int, limit_bytes: int) -> tuple[bool, str]:
    """Whether the step was reached, and of which generation the entry is: ``new``, or that there is ``none``."""
    with own_namespace() as namespace:
        rig = Rig(namespace, limit_bytes=limit_bytes)
        try:
            rig.compile("vocabulary")
            rig.compile("old-a", rows=["old-row"])
            clearing = ClearingAt(rig, step)
            with before_every_step(clearing):
                rig.ask_for("new")
                job = rig.take_job()
                rig.finish(job, ROWS)
                answer = rig.answer()
            rig.settle()
            assert broken_at_rest(rig, Facts(), is_mapped=False) == []
            index, control = rig.server.shelf.index, rig.server.shelf.control
            assert isinstance(answer, wire.Image)
            assert answer.generation == job.generation
            was_cleared = control.generation > 1
            assert (index.look_up(key_of("old-a")) is None) == was_cleared
            found = index.look_up(key_of("new"))
            if job.generation < control.generation:
                assert found is None
                assert control.totals().cache_bytes == 0
                return True, "none"
            # The lease was granted after the clear, if there was one.
            assert found is not None
            assert found.generation == control.generation
            assert all(
                entry.tier is Tier.VOCABULARY or entry.generation == control.generation for entry in index.entries()
            )
            return was_cleared, "new"
        finally:
            rig.stop()


@pytest.mark.parametrize("limit_bytes", [-1, 1 << 20])
def test_a_clear_between_any_two_steps(limit_bytes: int, capsys: pytest.CaptureFixture[str]) -> None:
    ignore_lease_signals()
    step, outcomes = 0, set()
    while (outcome := clear_at(step, limit_bytes))[0]:
        outcomes.add(outcome[1])
        step += 1
    assert step > 20
    assert outcomes == {"new", "none"}
    with capsys.disabled():
        sys.stdout.write(f"\ncleared before each of {step} steps\n")
