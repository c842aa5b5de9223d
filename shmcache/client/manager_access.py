"""A client's way to its manager: find it, start it, come back to it.

Owns the link and the attachment of one client, and when to try again. Must never know grammars.
"""

from __future__ import annotations

import logging
import threading
import time

from shmcache import settings
from shmcache.client.attachment import Attachment
from shmcache.client.link import Answer, Link, UselessManagerError
from shmcache.client.starting import one_at_a_time, start_manager
from shmcache.errors import ManagerUnavailable, SegmentError
from shmcache.manager.client_messages import Welcome
from shmcache.manager.wire import expect
from shmcache.memory.control import open_control_reader
from shmcache.memory.names import Namespace
from shmcache.memory.reader import SharedCache
from shmcache.memory.recency import open_recency

STARTS_MAX = 3
"""Managers a client starts in a row before it gives up for a while: each may lose to another one that is not up yet."""

RETRY_SECONDS_MIN = 1.0
RETRY_SECONDS_MAX = 60.0
"""How long no manager is started after one could not be, or asked after it was of no use; doubled each time."""

_log = logging.getLogger("shmcache")


class ManagerAccess:
    """The connection of one client, made when needed and made again when lost. Safe for several threads."""

    def __init__(self, namespace: Namespace, vocabulary_key: bytes, *, may_start: bool) -> None:
        self.namespace = namespace
        self.attachment = Attachment()
        self._vocabulary_key = vocabulary_key
        self._may_start = may_start
        self._lock = threading.Lock()
        self._link: Link | None = None
        self._is_closed = False
        self._start_at = 0.0
        self._ask_at = 0.0
        self._retry_seconds = RETRY_SECONDS_MIN

    def attach(self) -> Attachment:
        """The attachment; looked for by name when there is none, or the one we had was given up."""
        if not self.attachment.is_usable:
            with self._lock:
                if not self.attachment.is_usable:
                    self._attach_by_name()
        return self.attachment

    def detach(self) -> None:
        """A new attachment in place of one to no cache: what was held under the old one is no longer valid."""
        with self._lock:
            if not self.attachment.is_usable:
                self.attachment = Attachment()

    def link(self) -> Link:
        """A connection that was open just now. Raises :class:`ManagerUnavailable`."""
        link = self._link
        if link is not None and link.is_open:
            return link
        with self._lock:
            if self._is_closed:
                raise ManagerUnavailable("this client is closed")
            if self._link is not None and self._link.is_open:
                return self._link
            self._link = None
            self.attachment.leave_row()
            self._link, answer = self._connect()
            self._retry_seconds = RETRY_SECONDS_MIN
            with answer:
                self._attach_by_descriptor(expect(answer.message, Welcome), answer)
            return self._link

    def close(self) -> None:
        """Ends the connection for good. Idempotent."""
        with self._lock:
            self._is_closed = True
            if self._link is not None:
                self._link.close()

    def after_fork(self) -> None:
        """In a child: a connection and a counter row of its own, when it needs them."""
        self._lock = threading.Lock()
        if self._link is not None:
            self._link.after_fork()
            self._link = None
        self.attachment.after_fork()

    def _connect(self) -> tuple[Link, Answer]:
        """A connection to the manager that is there, else to one that we start."""
        if time.monotonic() < self._ask_at:
            raise ManagerUnavailable("the manager was of no use a moment ago")
        try:
            return Link.open(self.namespace, self._vocabulary_key)
        except UselessManagerError:
            self._ask_at = self._later()
            raise
        except ManagerUnavailable:
            if not self._may_start or time.monotonic() < self._start_at:
                raise
        try:
            return self._start()
        except ManagerUnavailable:
            self._start_at = self._later()
            raise

    def _start(self) -> tuple[Link, Answer]:
        """Starts a manager, or waits for the one that another client is starting, and connects to it."""
        deadline = time.monotonic() + settings.START_SECONDS.value()
        reason: ManagerUnavailable | None = None
        with one_at_a_time(self.namespace, deadline=deadline):
            for _ in range(STARTS_MAX):
                try:
                    # Whoever held the starting lock before us has started one; and so have we, the second time.
                    return Link.open(self.namespace, self._vocabulary_key)
                except UselessManagerError:
                    raise
                except ManagerUnavailable:
                    pass
                try:
                    start_manager(self.namespace, deadline=deadline)
                except ManagerUnavailable as error:
                    # Perhaps it lost to one that is not listening yet.
                    reason = error
        try:
            return Link.open(self.namespace, self._vocabulary_key)
        except ManagerUnavailable as error:
            raise reason or error from error

    def _later(self) -> float:
        seconds, self._retry_seconds = self._retry_seconds, min(2 * self._retry_seconds, RETRY_SECONDS_MAX)
        return time.monotonic() + seconds

    def _attach_by_name(self) -> None:
        try:
            shared = SharedCache.open(self.namespace)
        except FileNotFoundError:
            return
        except (SegmentError, OSError) as error:
            _log.warning("the cache of namespace %r is not usable: %s", self.namespace.name, error)
            return
        if shared.control.is_dissolved or shared.control.instance == self.attachment.instance:
            return
        try:
            recency = open_recency(self.namespace, shared.control)
        except (SegmentError, OSError):
            # Hits are then not noted, which does no harm but to what is evicted first.
            recency = None
        self.attachment = Attachment(shared, recency)

    def _attach_by_descriptor(self, welcome: Welcome, answer: Answer) -> None:
        """Makes the welcome's segments ours: those we have by name, unless the manager has others."""
        if self.attachment.instance != welcome.instance:
            self._attach_by_name()
        control_descriptor, recency_descriptor = answer.descriptors
        try:
            if self.attachment.instance != welcome.instance:
                # The manager's shared memory is not where we look, in another container say: everything by descriptor.
                control = open_control_reader(control_descriptor)
                shared = SharedCache(self.namespace, control, lock_free=False)
                self.attachment = Attachment(shared, open_recency(recency_descriptor, control))
            if self.attachment.recency is None and self.attachment.shared is not None:
                self.attachment.recency = open_recency(recency_descriptor, self.attachment.shared.control)
            if self.attachment.recency is not None:
                self.attachment.use_row(self.attachment.recency.row(welcome.row))
        except (SegmentError, OSError, ValueError) as error:
            _log.warning("what manager %d handed over is not usable: %s", welcome.pid, error)
