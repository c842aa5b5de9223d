"""A manager for the client's tests: a thread with a real socket, real shared memory, and replies that a test chooses.

It compiles in its own thread. What a test wants otherwise it puts into the ``on_...`` hooks.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from shmcache.compiler import compile_image
from shmcache.errors import ShmCacheError
from shmcache.grammar.key import Source
from shmcache.image.attached_source import attach_source
from shmcache.image.first_mask import with_first_mask
from shmcache.image.image import open_image
from shmcache.limits import Budget
from shmcache.manager.client_messages import (
    Clear,
    Cleared,
    Compile,
    Evict,
    Evicted,
    Fetch,
    Hello,
    Image,
    Missing,
    Refused,
    Status,
    StatusReply,
    Welcome,
)
from shmcache.manager.fields import Message
from shmcache.manager.parts import join_parts
from shmcache.manager.wire import PROTOCOL_VERSION, Decoder, encode
from shmcache.matcher.beginning import first_mask_of
from shmcache.memory.control import open_control_descriptor
from shmcache.memory.layout import SlotState, Tier
from shmcache.memory.names import Namespace
from shmcache.memory.recency import open_recency_descriptor
from shmcache.memory.segments import NO_TEXT, create_anonymous_segment, open_segment, unlink_segment
from shmcache.vocabulary.vocabulary import Vocabulary
from tests.memory.support import Cache

GUARD_SECONDS = 5.0

VOCABULARY = Vocabulary([bytes([byte]) for byte in range(256)] + [b"ab", b"</s>"], stop_token_ids=[257])

Reply = tuple[Message, list[int]]


def image_of(source: Source, vocabulary: Vocabulary = VOCABULARY) -> bytes:
    """The real image of a source."""
    return compile_image(source, vocabulary, budget=Budget())


def payload_of(source: Source) -> bytes:
    """What a worker puts into the segment of a source."""
    image = image_of(source)
    payload = with_first_mask(image, first_mask_of(open_image(image), VOCABULARY))
    return attach_source(payload, source.canonical().to_bytes())


@dataclass
class FakeManager:
    """One namespace's manager. ``asked`` lists the messages in the order of their arrival."""

    namespace: Namespace
    cache: Cache
    asked: list[Message] = field(default_factory=list)
    sources: list[bytes] = field(default_factory=list)
    on_compile: Callable[[FakeManager, Compile, bytes], Reply | None] | None = None
    on_hello: Callable[[FakeManager, Hello], Reply | None] | None = None
    connections: list[socket.socket] = field(default_factory=list)
    rows: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, kind: type[Message]) -> int:
        """How many messages of that kind were received."""
        return sum(isinstance(message, kind) for message in self.asked)

    def grammar_compiles(self) -> int:
        """How many compiles of grammars were asked for."""
        return sum(isinstance(message, Compile) and message.kind == "grammar" for message in self.asked)

    def clear(self) -> int:
        """What ``clear`` does."""
        return self.cache.index.raise_generation()

    def compile(self, message: Compile, source: bytes) -> Reply:
        """Compiles and publishes, in the generation that is valid now."""
        generation = self.cache.control.generation
        if message.kind == "vocabulary":
            parts = [source, Vocabulary.from_bytes(source).trie.to_bytes()]
            entry = self.cache.add(message.key, b"".join(join_parts(parts)), tier=Tier.VOCABULARY)
        else:
            try:
                parsed = Source.from_bytes(source)
                payload = payload_of(parsed)
            except ShmCacheError as error:
                return Refused(message.request, **error.to_plain()), []
            text_digest = parsed.text_digest(VOCABULARY.fingerprint) or NO_TEXT
            entry = self.cache.add(message.key, payload, text_digest=text_digest)
        descriptor = open_segment(self.cache.namespace.data_name(self.cache.control.instance, entry.serial))
        return Image(message.request, message.key, generation, entry.serial, entry.payload_bytes), [descriptor]

    def unindexed(self, message: Compile, source: bytes, generation: int) -> Reply:
        """Compiles for this caller only."""
        payload = image_of(Source.from_bytes(source))
        descriptor = create_anonymous_segment([payload], key=message.key, generation=generation, tier=Tier.GRAMMAR)
        return Image(message.request, message.key, generation, 0, len(payload)), [descriptor]

    def drop_connections(self) -> None:
        """What a dying manager does to its clients."""
        connections, self.connections = self.connections, []
        for connection in connections:
            with connection, suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def reply(self, message: Message, descriptors: list[int]) -> Reply | None:
        """The reply to one message; None for none."""
        if isinstance(message, Hello):
            return self._welcome(message)
        if isinstance(message, Compile):
            source = message.source
            if descriptors:
                source = os.pread(descriptors[0], 1 << 24, 0)
            self.sources.append(source)
            if self.on_compile is not None and message.kind == "grammar":
                return self.on_compile(self, message, source)
            return self.compile(message, source)
        if isinstance(message, Clear):
            return Cleared(message.request, self.clear()), []
        if isinstance(message, Fetch):
            return self._fetch(message)
        if isinstance(message, Evict):
            return self._evict(message)
        if isinstance(message, Status):
            return StatusReply(message.request, {"generation": self.cache.control.generation}), []
        return None

    def _welcome(self, message: Hello) -> Reply | None:
        if self.on_hello is not None:
            return self.on_hello(self, message)
        self.rows += 1
        control = self.cache.control
        welcome = Welcome(
            message.request, PROTOCOL_VERSION, control.instance, 1, control.generation, os.getpid(), self.rows % 8
        )
        namespace = self.cache.namespace
        return welcome, [open_control_descriptor(namespace), open_recency_descriptor(namespace)]

    def _fetch(self, message: Fetch) -> Reply:
        entry = self.cache.index.look_up(message.key)
        if entry is None:
            return Missing(message.request), []
        descriptor = open_segment(self.cache.namespace.data_name(self.cache.control.instance, entry.serial))
        return Image(message.request, message.key, entry.generation, entry.serial, entry.payload_bytes), [descriptor]

    def _evict(self, message: Evict) -> Reply:
        found = [
            entry for entry in self.cache.index.entries() if entry.key == message.key and entry.state is SlotState.READY
        ]
        for entry in found:
            self.cache.index.retire(entry.slot)
            unlink_segment(self.cache.namespace.data_name(self.cache.control.instance, entry.serial))
            self.cache.index.release(entry.slot)
        return Evicted(message.request, len(found), 0), []

    def serve(self, connection: socket.socket) -> None:
        """Answers one client until it goes."""
        decoder = Decoder()
        while True:
            try:
                data, descriptors, _, _ = socket.recv_fds(connection, 1 << 16, 4)
            except OSError:
                return
            if not data:
                return
            try:
                for message in decoder.feed(data):
                    self.asked.append(message)
                    threading.Thread(target=self._answer, args=(connection, message, list(descriptors))).start()
                    descriptors = []
            finally:
                for descriptor in descriptors:
                    os.close(descriptor)

    def _answer(self, connection: socket.socket, message: Message, descriptors: list[int]) -> None:
        try:
            reply = self.reply(message, descriptors)
            if reply is not None:
                try:
                    with self.lock:
                        socket.send_fds(connection, [encode(reply[0])], reply[1])
                except OSError:
                    pass
                finally:
                    for descriptor in reply[1]:
                        os.close(descriptor)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)


@contextmanager
def fake_manager(namespace: Namespace, *, listening_at: Namespace | None = None) -> Iterator[FakeManager]:
    """A manager that listens on the namespace's socket, or on that of another one; gone with its threads at the end."""
    place = namespace if listening_at is None else listening_at
    place.make_directory()
    manager = FakeManager(namespace, Cache.create(namespace))
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(place.socket_path))
    listener.listen()
    threads: list[threading.Thread] = []

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            manager.connections.append(connection)
            thread = threading.Thread(target=manager.serve, args=(connection,))
            threads.append(thread)
            thread.start()

    acceptor = threading.Thread(target=accept)
    acceptor.start()
    try:
        yield manager
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        acceptor.join(GUARD_SECONDS)
        manager.drop_connections()
        for thread in threads:
            thread.join(GUARD_SECONDS)
        place.socket_path.unlink(missing_ok=True)
