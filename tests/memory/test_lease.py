"""The kernel's answer to who still uses a file, and the self-test that says whether to trust it."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from shmcache.memory import lease, steps
from shmcache.memory.names import Namespace
from shmcache.memory.objects import list_objects
from shmcache.memory.segments import create_segment, map_segment, open_segment, unlink_segment
from tests.memory.support import GUARD_SECONDS, program, read_line


@pytest.fixture(autouse=True)
def _signals() -> Iterator[None]:
    before = signal.getsignal(signal.SIGIO)
    lease.ignore_lease_signals()
    yield
    signal.signal(signal.SIGIO, before)


@pytest.fixture
def name(namespace: Namespace) -> str:
    if not lease.leases_work(namespace):
        pytest.skip("this kernel or file system gives no leases")
    name = namespace.data_name(1, 1)
    create_segment(name, [bytes(5000)], key=bytes(32), generation=1, tier=0)
    return name


def test_the_self_test_leaves_nothing(namespace: Namespace) -> None:
    before = len(os.listdir("/proc/self/fd"))
    lease.leases_work(namespace)
    assert list_objects(namespace.prefix) == []
    assert len(os.listdir("/proc/self/fd")) == before


def test_the_self_test_reports_a_kernel_that_refuses(namespace: Namespace, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr(steps, "fcntl", refuse)
    assert not lease.leases_work(namespace)


def test_the_self_test_reports_a_kernel_that_always_grants(
    namespace: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "fcntl", lambda *_: 0)
    assert not lease.leases_work(namespace)


def test_the_self_test_needs_no_name_that_does_not_fit(namespace: Namespace, monkeypatch: pytest.MonkeyPatch) -> None:
    works, open_file = lease.leases_work(namespace), steps.open_file

    def no_more_names(path: Any, flags: int, *mode: int) -> int:
        if flags & os.O_CREAT:
            raise OSError(errno.ENOSPC, "No space left on device")
        return open_file(path, flags, *mode)

    monkeypatch.setattr(steps, "open_file", no_more_names)
    before = len(os.listdir("/proc/self/fd"))
    assert lease.leases_work(namespace) == works
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_mapping_in_this_process_counts(name: str) -> None:
    probe = open_segment(name)
    try:
        assert lease.is_unused(probe)
        mapping = map_segment(name)
        assert not lease.is_unused(probe)
        unlink_segment(name)
        assert not lease.is_unused(probe)
        del mapping
        assert lease.is_unused(probe)
    finally:
        os.close(probe)


def test_a_payload_view_keeps_it_in_use(name: str) -> None:
    probe = open_segment(name)
    try:
        view = map_segment(name).payload[10:20]
        assert not lease.is_unused(probe)
        del view
        assert lease.is_unused(probe)
    finally:
        os.close(probe)


def test_a_process_that_is_killed_lets_go_also_after_unlink(name: str, namespace: Namespace) -> None:
    probe = open_segment(name)
    try:
        with program("hold_mapping", namespace, name) as holder:
            assert read_line(holder) == "5000"
            assert not lease.is_unused(probe)
            unlink_segment(name)
            assert not lease.is_unused(probe)
            holder.kill()
            holder.wait(GUARD_SECONDS)
            assert lease.is_unused(probe)
    finally:
        os.close(probe)


def test_writers_are_told_from_readers(name: str) -> None:
    probe = open_segment(name)
    try:
        reader = open_segment(name)
        assert lease.has_no_writer(probe)
        os.close(reader)
        path = f"/proc/self/fd/{probe}"
        os.fchmod(probe, 0o640)
        writer = os.open(path, os.O_RDWR)
        assert not lease.has_no_writer(probe)
        os.close(writer)
        assert lease.has_no_writer(probe)
    finally:
        os.close(probe)


def test_the_lease_is_dropped_at_once(name: str) -> None:
    probe = open_segment(name)
    try:
        assert lease.is_unused(probe)
        # With a lease still held, this open would fail with EWOULDBLOCK.
        os.close(open_segment(name))
        assert lease.is_unused(probe)
    finally:
        os.close(probe)
