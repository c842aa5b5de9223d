"""How a worker stores what it made: images, vocabularies, rule rows.

Owns the exchange with the manager around a segment (ask for room, make it, commit it), and the rule tier as compiles
see it. Must never know what the payloads mean.

Rows that a compile leaves are stored after its image is delivered, so that nobody waits for them. They go under the
generation of the compile's lease, so that those of an old compile are refused.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Sequence

from shmcache.errors import LimitError, SegmentError
from shmcache.manager import wire
from shmcache.memory.control import open_control_reader
from shmcache.memory.index import IndexReader
from shmcache.memory.layout import Tier
from shmcache.memory.names import Namespace
from shmcache.memory.recency import Recency, now_ns, open_recency
from shmcache.memory.segments import HEADER_BYTES, NO_TEXT, create_anonymous_segment, create_segment, map_segment
from shmcache.memory.words import LOCK_FREE

_log = logging.getLogger(__name__)

PAGE_BYTES = 4096
PENDING_BYTES_MAX = 256 << 20
PENDING_ROWS_MAX = 4096
"""Rows kept until their image is delivered; more are not stored."""

Payload = Sequence[bytes | memoryview]


class Storage:
    """What one worker puts into shared memory. ``converse`` sends a request and returns its reply."""

    def __init__(self, namespace: Namespace, converse: Callable[..., wire.Message], tell: Callable[..., None]) -> None:
        self._namespace = namespace
        self._converse = converse
        self._tell = tell
        self._request = 0

    def deliver(
        self, job: wire.Job, tier: Tier, payload: Payload, cost_us: int, *, text_digest: bytes = NO_TEXT
    ) -> str:
        """Stores the job's result, or hands it over outside of the cache where there is no room or no right to it."""
        outcome = self._store(job, tier, payload, cost_us, text_digest)
        if outcome in ("ready", "fenced"):
            return outcome
        descriptor = create_anonymous_segment(payload, key=job.key, generation=job.generation, tier=tier)
        try:
            return self._commit(job, tier, job.key, 0, payload, cost_us, [descriptor])
        finally:
            os.close(descriptor)

    def store_row(self, job: wire.Job, key: bytes, payload: bytes, cost_us: int) -> str:
        """Stores one rule's rows; ``fenced`` and ``full`` mean that further rows need not be tried."""
        allocated = self._alloc(job, Tier.RULE, key, len(payload))
        if allocated.outcome != "granted":
            return allocated.outcome
        if not self._fill(job, Tier.RULE, key, [payload], allocated, NO_TEXT):
            return "full"
        return self._commit(job, Tier.RULE, key, allocated.serial, [payload], cost_us)

    def _store(self, job: wire.Job, tier: Tier, payload: Payload, cost_us: int, text_digest: bytes) -> str:
        """What became of the segment; ``unindexed`` when the image has yet to be handed over."""
        size_bytes = sum(len(part) for part in payload)
        reclaim_bytes = 0
        for _ in range(2):
            allocated = self._alloc(job, tier, job.key, size_bytes, reclaim_bytes)
            if allocated.outcome != "granted":
                break
            if self._fill(job, tier, job.key, payload, allocated, text_digest):
                return self._commit(job, tier, job.key, allocated.serial, payload, cost_us)
            # The host's memory is full: once more, after others have made room.
            reclaim_bytes = _segment_bytes(size_bytes)
        return "unindexed"

    def _fill(
        self,
        job: wire.Job,
        tier: Tier,
        key: bytes,
        payload: Payload,
        allocated: wire.Allocated,
        text_digest: bytes,
    ) -> bool:
        name = self._namespace.data_name(allocated.instance, allocated.serial)
        try:
            create_segment(name, payload, key=key, generation=allocated.generation, tier=tier, text_digest=text_digest)
        except LimitError as error:
            _log.warning("%s", error.message)
            self._tell(wire.Abandon(job.job, allocated.serial))
            return False
        return True

    def _alloc(
        self, job: wire.Job, tier: Tier, key: bytes, payload_bytes: int, reclaim_bytes: int = 0
    ) -> wire.Allocated:
        request = self._next_request()
        alloc = wire.Alloc(request, job.job, tier.name.lower(), key, _segment_bytes(payload_bytes), reclaim_bytes)
        return wire.expect(self._converse(alloc, ()), wire.Allocated)

    def _commit(
        self,
        job: wire.Job,
        tier: Tier,
        key: bytes,
        serial: int,
        payload: Payload,
        cost_us: int,
        descriptors: Sequence[int] = (),
    ) -> str:
        commit = wire.Commit(
            request=self._next_request(),
            job=job.job,
            tier=tier.name.lower(),
            key=key,
            serial=serial,
            payload_bytes=sum(len(part) for part in payload),
            cost_us=cost_us,
            descriptors=len(descriptors),
        )
        return wire.expect(self._converse(commit, descriptors), wire.Committed).outcome

    def _next_request(self) -> int:
        self._request = (self._request + 1) & 0xFFFFFFFF
        return self._request


class SharedRuleRows:
    """The rule tier for one compile: rows are looked up without a lock, and left to be stored later."""

    def __init__(self, reader: RowReader) -> None:
        self._reader = reader
        self.pending: list[tuple[bytes, bytes, int]] = []
        self._pending_bytes = 0

    def get(self, key: bytes) -> memoryview | None:
        """The rows stored under ``key`` in the current generation."""
        return self._reader.get(key)

    def put(self, key: bytes, payload: bytes, cost_us: int) -> None:
        """Leaves rows to be stored when the image is delivered."""
        self._pending_bytes += len(payload)
        if self._pending_bytes <= PENDING_BYTES_MAX and len(self.pending) < PENDING_ROWS_MAX:
            self.pending.append((bytes(key), bytes(payload), cost_us))


class RowReader:
    """Looks rows up in shared memory; opened at the first use, and of no effect where that does not work."""

    def __init__(self, namespace: Namespace) -> None:
        self._namespace = namespace
        self._index: IndexReader | None = None
        self._recency: Recency | None = None
        self._is_tried = False

    def get(self, key: bytes) -> memoryview | None:
        """The payload under ``key``; the view keeps its mapping alive."""
        index = self._open()
        entry = None if index is None else index.look_up(key)
        if index is None or entry is None or entry.tier is not Tier.RULE:
            return None
        instance = index.control.instance
        try:
            mapping = map_segment(self._namespace.data_name(instance, entry.serial))
        except (FileNotFoundError, SegmentError):
            return None
        if not mapping.header.is_of(entry, instance) or not index.is_unchanged(entry):
            return None
        if self._recency is not None:
            self._recency.touch(entry.slot, now_ns())
        return mapping.payload

    def _open(self) -> IndexReader | None:
        if not self._is_tried and LOCK_FREE:
            self._is_tried = True
            try:
                control = open_control_reader(self._namespace)
                self._index = IndexReader(control)
                self._recency = open_recency(self._namespace, control)
            except (OSError, SegmentError) as error:
                _log.warning("rows of other grammars cannot be looked up: %s", error)
        return self._index


def elapsed_us(start_ns: int) -> int:
    """Microseconds since ``start_ns`` on the performance counter, at least 1."""
    return max(1, (time.perf_counter_ns() - start_ns) // 1000)


def _segment_bytes(payload_bytes: int) -> int:
    return -(-(HEADER_BYTES + payload_bytes) // PAGE_BYTES) * PAGE_BYTES
