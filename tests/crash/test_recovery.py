"""The start of a manager over a large cache: how long it takes, and that readers do not notice."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import pytest

from shmcache.manager.recovery import leave, recover
from shmcache.memory.control import create_control
from shmcache.memory.election import ManagerLock
from shmcache.memory.index import IndexWriter
from shmcache.memory.lease import ignore_lease_signals
from shmcache.memory.names import Namespace
from shmcache.memory.recency import create_recency
from shmcache.memory.segments import create_segment
from tests.conftest import REPOSITORY
from tests.memory.support import key_of, own_namespace

ENTRIES = 5000
SECONDS_MAX = 0.5
PATIENCE = 6
"""How many times as long a machine busy with other things may take before the test fails."""


def fill(namespace: Namespace) -> None:
    """Five thousand entries, one page each."""
    control = create_control(namespace)
    create_recency(namespace, control)
    index = IndexWriter(control)
    for number in range(ENTRIES):
        key, serial = key_of(number, fingerprint=number * 0x9E3779B97F4A7C15 % (1 << 64)), control.next_serial()
        fields = {"tier": number % 2, "generation": 1}
        entry = index.reserve(key, serial=serial, reserved_bytes=4096, owner=0, **fields)  # type: ignore[arg-type]
        assert entry is not None
        info = create_segment(namespace.data_name(control.instance, serial), [b"x"], key=key, **fields)
        assert index.publish(entry.slot, charged_bytes=info.charged_bytes, payload_bytes=1, cost_us=1) is not None


@pytest.mark.timeout(180)
def test_five_thousand_entries_are_recovered_under_readers(capsys: pytest.CaptureFixture[str]) -> None:
    ignore_lease_signals()
    with own_namespace() as namespace:
        fill(namespace)
        command = [sys.executable, "-m", "tests.crash.reader", namespace.name, str(namespace.directory)]
        with subprocess.Popen(command, cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as reader:
            try:
                assert reader.stdout is not None
                assert reader.stdout.readline() == b"ready\n"
                lock = ManagerLock(namespace)
                assert lock.acquire()
                started_at, cpu_at = time.monotonic(), time.process_time()
                recovered = recover(namespace, -1)
                seconds, cpu_seconds = time.monotonic() - started_at, time.process_time() - cpu_at
                assert len(recovered.restored.entries) == ENTRIES
                leave(recovered.shelf)
                lock.release()
                seen = json.loads(reader.communicate(b"")[0])
            finally:
                reader.kill()
    assert seen["misses"] == 0
    assert seen["hits"] >= ENTRIES
    assert cpu_seconds < PATIENCE * SECONDS_MAX
    with capsys.disabled():
        sys.stdout.write(
            f"\nrecovered {ENTRIES} entries in {seconds:.2f} s ({cpu_seconds:.2f} s of processor time); readers had "
            f"{seen['hits']} hits and {seen['misses']} misses, the slowest {seen['longest_us']:.0f} µs\n"
        )
