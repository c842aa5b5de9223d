"""One manager at a time, whatever dies and whatever is removed."""

from __future__ import annotations

import os

import pytest

from shmcache.errors import SegmentError
from shmcache.memory.election import ManagerLock, holder_pid
from shmcache.memory.names import Namespace
from tests.memory.support import GUARD_SECONDS, program, read_line


def test_one_of_two_processes_wins_and_its_death_frees_the_lock(namespace: Namespace) -> None:
    lock = ManagerLock(namespace)
    with program("hold_lock", namespace) as winner:
        assert read_line(winner) == "held"
        assert holder_pid(namespace) == winner.pid
        assert not lock.acquire()
        assert not lock.is_held
        with program("hold_lock", namespace) as loser:
            assert read_line(loser) == "refused"
        winner.kill()
        winner.wait(GUARD_SECONDS)
    assert holder_pid(namespace) is None
    assert lock.acquire()
    assert lock.is_held
    with program("hold_lock", namespace) as loser:
        assert read_line(loser) == "refused"
    lock.release()
    with program("hold_lock", namespace) as next_one:
        assert read_line(next_one) == "held"


def test_another_runtime_directory_gives_no_second_manager(namespace: Namespace, tmp_path: object) -> None:
    elsewhere = Namespace.of(namespace.name, directory=namespace.directory / "other")
    with program("hold_lock", elsewhere) as winner:
        assert read_line(winner) == "held"
        assert not ManagerLock(namespace).acquire()
        # What was taken before the refusal was given back.
        with program("hold_lock", elsewhere) as loser:
            assert read_line(loser) == "refused"


def test_a_child_inherits_neither_lock_nor_descriptor(namespace: Namespace) -> None:
    lock = ManagerLock(namespace)
    assert lock.acquire()
    assert not any(os.get_inheritable(descriptor) for descriptor in lock._descriptors)
    lock.release()


def test_removing_the_files_of_a_held_lock_is_safe(namespace: Namespace) -> None:
    lock = ManagerLock(namespace)
    assert lock.acquire()
    lock.release(remove=True)
    assert not namespace.lock_path.exists()
    assert not namespace.shm_lock_path.exists()
    assert lock.acquire()
    lock.release()


def test_a_lock_on_a_removed_file_is_not_held(namespace: Namespace) -> None:
    """Whoever opened the file before it was removed must not believe that its lock on the old file means anything."""
    from shmcache.memory import election, steps

    lock = ManagerLock(namespace)
    assert lock.acquire()
    real, calls = election.fcntl.lockf, []

    def remove_then_lock(descriptor: int, operation: int) -> None:
        if not calls:
            namespace.lock_path.unlink()
        calls.append(descriptor)
        real(descriptor, operation)

    lock.release()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(steps, "lockf", remove_then_lock)
        assert lock.acquire()
    assert len(calls) == 3
    with program("hold_lock", namespace) as other:
        assert read_line(other) == "refused"
    lock.release()


def test_nobody_holds_what_is_not_there(namespace: Namespace) -> None:
    assert holder_pid(namespace) is None


def test_a_squatted_lock_is_refused(namespace: Namespace) -> None:
    namespace.make_directory()
    namespace.lock_path.symlink_to("/etc/passwd")
    with pytest.raises((SegmentError, OSError)):
        ManagerLock(namespace).acquire()
