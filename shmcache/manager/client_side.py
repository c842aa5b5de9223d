"""The manager's conversation with its clients: their messages to events, effects to their answers.

Owns what of a message is checked before the core hears of it, and the framing of answers. Must never decide what an
answer is. A client that sends what is no message, or does not read its answers, loses its connection and nothing else
happens.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from functools import partial

from shmcache.errors import ManagerUnavailable, SegmentError, ShmCacheError
from shmcache.manager import effects as fx
from shmcache.manager import events as ev
from shmcache.manager import wire
from shmcache.manager.descriptors import close_all
from shmcache.manager.fields import TEXT_CHARACTERS_MAX
from shmcache.manager.peers import Client, Clients
from shmcache.manager.policy import Limits
from shmcache.manager.shelf import Shelf
from shmcache.manager.sources import SourceHandle
from shmcache.memory.control import open_control_descriptor
from shmcache.memory.layout import Tier
from shmcache.memory.recency import open_recency_descriptor

_log = logging.getLogger(__name__)

TIERS = {tier.name.lower(): tier for tier in Tier}

ClientEffect = (
    fx.SendEntry | fx.SendImage | fx.SendRefusal | fx.SendMissing | fx.SendCleared | fx.SendEvicted | fx.DropSource
)


class ClientSide:
    """Everything between clients' sockets and the core."""

    def __init__(
        self,
        clients: Clients,
        shelf: Shelf,
        *,
        apply: Callable[[ev.Event], None],
        let_go: Callable[[Client, str], None],
        statistics: Callable[[], dict[str, object]],
        postpone: Callable[[Callable[[], None]], None],
    ) -> None:
        self._clients = clients
        self._shelf = shelf
        self._apply = apply
        self._let_go = let_go
        self._statistics = statistics
        self._postpone = postpone

    # --- from clients ------------------------------------------------------------------------------------------------

    def read(self, client: Client) -> None:
        """Takes in what a client sent."""
        try:
            messages = client.connection.receive()
            if messages is None:
                is_cut = not client.connection.is_between_messages
                self._let_go(client, "its stream ends within a message" if is_cut else "")
                return
            for message, descriptors in messages:
                self._take(client, message, descriptors)
                if self._clients.get(client.number) is None:
                    return
        except wire.WireError as error:
            self._let_go(client, f"it sent what is no message: {error.message}")

    def _take(self, client: Client, message: wire.Message, descriptors: list[int]) -> None:
        taken = list(descriptors)
        try:
            if type(message) not in wire.FROM_CLIENT or (not client.role and not isinstance(message, wire.Hello)):
                raise wire.WireError(f"{message.op} is not for a client to say here")
            match message:
                case wire.Hello():
                    self._hello(client, message)
                case wire.Compile():
                    self._compile(client, message, taken)
                case wire.Cancel(_, target):
                    self._apply(ev.CancelAsked(client.number, target))
                case wire.Fetch(request, tier, key):
                    self._apply(ev.FetchAsked(client.number, request, TIERS[tier], key))
                case wire.Clear(request):
                    self._apply(ev.ClearAsked(client.number, request))
                case wire.Evict(request, key):
                    self._apply(ev.EvictAsked(client.number, request, key))
                case wire.Status(request):
                    self._send(client, wire.StatusReply(request, self._statistics()))
        finally:
            close_all(taken)

    def _hello(self, client: Client, message: wire.Hello) -> None:
        if client.role:
            raise wire.WireError("a second hello")
        if message.protocol != wire.PROTOCOL_VERSION:
            text = f"this manager speaks protocol {wire.PROTOCOL_VERSION}, not {message.protocol}"
            client.is_leaving = True
            self._send(client, wire.Refused(message.request, wire.WireError.code, text))
            return
        self._clients.welcome(client, message.role, message.pid)
        # Before the answer: a client that is gone when it is answered leaves, and who has left must not join.
        self._apply(ev.ClientJoined(client.number, message.vocabulary_key))
        control = self._shelf.control
        descriptors: list[int] = []
        try:
            descriptors.append(open_control_descriptor(self._shelf.namespace))
            descriptors.append(open_recency_descriptor(self._shelf.namespace))
            welcome = wire.Welcome(
                request=message.request,
                protocol=wire.PROTOCOL_VERSION,
                instance=control.instance,
                epoch=control.manager().epoch,
                generation=control.generation,
                pid=os.getpid(),
                row=client.row,
            )
            self._send(client, welcome, descriptors)
        except (SegmentError, OSError) as error:
            self._let_go(client, f"it cannot be given the control segment: {error}")
        finally:
            close_all(descriptors)

    def _compile(self, client: Client, message: wire.Compile, taken: list[int]) -> None:
        if message.kind == "vocabulary" and message.key != message.vocabulary_key:
            raise wire.WireError("the key of a vocabulary is its vocabulary key")
        try:
            source = SourceHandle.of(message.source, taken, is_vocabulary=message.kind == "vocabulary")
        except ShmCacheError as error:
            if isinstance(error, wire.WireError):
                raise
            self._send(client, refusal(message.request, error.to_plain()))
            return
        taken.clear()
        limits = Limits(message.seconds_max, message.states_max, message.edges_max, message.memory_bytes_max)
        asked = (client.number, message.request, TIERS[message.kind], message.key, message.vocabulary_key)
        self._apply(ev.CompileAsked(*asked, source, limits))

    # --- to clients --------------------------------------------------------------------------------------------------

    def perform(self, effect: ClientEffect) -> ev.Event | None:
        """Sends it; what follows from it at once comes back."""
        match effect:
            case fx.SendEntry():
                return self._send_entry(effect)
            case fx.SendImage():
                image = wire.Image(effect.request, effect.key, effect.generation, effect.serial, effect.payload_bytes)
                self._send_to(effect.client, image, [effect.image])
            case fx.SendRefusal(client, request, error):
                self._send_to(client, refusal(request, error))
            case fx.SendMissing(client, request):
                self._send_to(client, wire.Missing(request))
            case fx.SendCleared(client, request, generation):
                self._send_to(client, wire.Cleared(request, generation))
                asker = self._clients.get(client)
                # A line in the log takes longer than the clear itself.
                self._postpone(partial(_log_clear, generation, asker.pid if asker else None))
            case fx.SendEvicted(client, request, entries, charged_bytes):
                self._send_to(client, wire.Evicted(request, entries, charged_bytes))
            case fx.DropSource(source):
                source.close()
        return None

    def _send_entry(self, effect: fx.SendEntry) -> ev.Event | None:
        asked = effect.asked
        try:
            descriptor = self._shelf.open_entry(effect.serial)
        except (SegmentError, FileNotFoundError) as error:
            _log.warning("entry %d is lost: %s", effect.serial, error)
            return ev.EntryLost(effect.serial, asked)
        except OSError as error:
            _log.warning("entry %d cannot be opened: %s", effect.serial, error)
            unable = ManagerUnavailable(f"the manager cannot open the entry: {error.strerror}")
            self._send_to(asked.client, refusal(asked.request, unable.to_plain()))
            _close_source(asked)
            return None
        try:
            image = wire.Image(asked.request, asked.key, effect.generation, effect.serial, effect.payload_bytes)
            self._send_to(asked.client, image, [descriptor])
        finally:
            os.close(descriptor)
        _close_source(asked)
        return None

    def flush(self, client: Client) -> None:
        """Sends what waits, now that the client reads."""
        try:
            client.connection.flush()
        except ConnectionError as error:
            self._let_go(client, str(error))
            return
        if client.is_leaving and not client.connection.wants_to_send:
            self._let_go(client, "")

    def _send_to(self, number: int, message: wire.Message, descriptors: Sequence[int] = ()) -> None:
        client = self._clients.get(number)
        if client is not None:
            self._send(client, message, descriptors)

    def _send(self, client: Client, message: wire.Message, descriptors: Sequence[int] = ()) -> None:
        try:
            client.connection.send(message, descriptors)
        except ConnectionError as error:
            self._let_go(client, str(error))
            return
        if client.is_leaving and not client.connection.wants_to_send:
            self._let_go(client, "")


def _log_clear(generation: int, asked_by: int | None) -> None:
    fields = {"generation": generation, "asked_by": asked_by}
    _log.info("generation %d opened by pid %s", *fields.values(), extra=fields)


def _close_source(asked: ev.CompileAsked | ev.FetchAsked) -> None:
    if isinstance(asked, ev.CompileAsked):
        asked.source.close()


def refusal(request: int, error: ev.PlainError) -> wire.Refused:
    """An error as an answer, cut to what a message may hold."""
    code, text = str(error["code"])[:100], str(error["message"])[:TEXT_CHARACTERS_MAX]
    answer = wire.Refused(request, code, text, dict(error.get("details", {})))
    try:
        wire.encode(answer)
    except wire.WireError:
        return wire.Refused(request, code, text)
    return answer
