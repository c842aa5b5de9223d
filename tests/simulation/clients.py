"""A client as the simulation has it: the real look-up over the real index, and requests whose answers it checks.

Owns one client process. Must never look into the manager: it knows the index, the files it is given, and what a clear
that was answered before it asked promises.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

from shmcache.manager import wire
from shmcache.memory.control import ControlReader
from shmcache.memory.layout import Tier
from shmcache.memory.names import Namespace
from shmcache.memory.reader import SharedCache
from tests.simulation.files import Files
from tests.simulation.lines import Line
from tests.simulation.workers import REFUSED_KEYS, text_of

VOCABULARY = b"V" * 32
KEYS = [number.to_bytes(32, "big") for number in (1, 2, 3, 9)]
TIERS = {"grammar": Tier.GRAMMAR, "vocabulary": Tier.VOCABULARY}


@dataclass(frozen=True)
class Ask:
    """A request without its answer. ``cleared``: the generation of the last clear that was answered before it."""

    kind: str
    key: bytes
    cleared: int


class SimClient:
    """One client process."""

    def __init__(self, number: int, files: Files, namespace: Namespace, control: ControlReader, rng: Random) -> None:
        self.number = number
        self.pid = 20_000 + number
        self.pidfd = -2_000_000 - number
        self.owner = f"client {number}"
        self.line: Line | None = None
        self.outstanding: dict[int, Ask] = {}
        self.answered: set[int] = set()
        self.hits = 0
        self.wanted: list[bytes] = []
        """Keys to be asked for again, once the vocabulary is there."""
        self.cleared = 1
        """The newest generation that this client was told of."""
        self.shared = SharedCache(namespace, control, lock_free=True)
        self._files = files
        self._rng = rng
        self._request = 0

    @property
    def waits_for_vocabulary(self) -> bool:
        """Whether grammars need not be asked for yet."""
        return any(ask.kind == "vocabulary" for ask in self.outstanding.values())

    # --- asking ------------------------------------------------------------------------------------------------------

    def look_up(self, key: bytes, cleared: int) -> bool:
        """The real look-up, by key or by text, with anything happening in its middle; whether it hit."""
        by_text = self._rng.random() < 0.5
        found = self.shared.open_text(text_of(key)) if by_text else self.shared.open_entry(key)
        if found is None:
            return False
        entry, mapping = found
        file: Any = mapping.payload
        self.hits += 1
        assert entry.key == key == file.header.key, "a hit of another key"
        assert file.header.serial == entry.serial, "a hit of another serial"
        assert entry.generation == self.shared.control.generation, "a hit that a clear had ended"
        assert self.shared.index.read(entry.slot) == entry, "a hit of what had been retired"
        assert entry.generation >= cleared, "a hit from before a clear that had returned"
        assert file.made_in == entry.generation, "an older compile is READY in a newer generation"
        return True

    def compile(self, key: bytes, cleared: int, *, kind: str = "grammar") -> None:
        """Asks for the image of a key."""
        self._ask("compile", kind, key, cleared)

    def fetch(self, key: bytes, cleared: int) -> None:
        self._ask("fetch", "grammar", key, cleared)

    def clear(self, cleared: int) -> None:
        self._ask("clear", "", b"", cleared)

    def evict(self, key: bytes, cleared: int) -> None:
        self._ask("evict", "", key, cleared)

    def cancel(self) -> None:
        """Gives up one of its requests."""
        compiles = [number for number, ask in self.outstanding.items() if ask.kind in TIERS]
        if self.line is not None and compiles:
            target = self._rng.choice(compiles)
            del self.outstanding[target]
            self._request += 1
            self.line.say(wire.Cancel(self._request, target))

    def let_go(self) -> None:
        """Unmaps everything."""
        self.shared.drop_mappings()
        self._files.close_owner(self.owner)

    def _ask(self, op: str, kind: str, key: bytes, cleared: int) -> None:
        assert self.line is not None
        self._request += 1
        request = self._request
        messages = {
            "compile": lambda: wire.Compile(request, kind, key, VOCABULARY, b"source"),
            "fetch": lambda: wire.Fetch(request, kind, key),
            "clear": lambda: wire.Clear(request),
            "evict": lambda: wire.Evict(request, key),
        }
        self.outstanding[request] = Ask(kind if op == "compile" else op, key, cleared)
        self.line.say(messages[op]())

    # --- being answered ----------------------------------------------------------------------------------------------

    def connect(self, line: Line) -> None:
        self.line = line
        self._request += 1
        line.say(wire.Hello(self._request, wire.PROTOCOL_VERSION, "client", self.pid, VOCABULARY))
        self.outstanding[self._request] = Ask("hello", b"", 0)

    def lose_line(self) -> None:
        """The manager is gone: what was asked of it is asked of the next one."""
        self.wanted += [ask.key for ask in self.outstanding.values() if ask.kind == "grammar"]
        self.outstanding.clear()
        self.line = None

    def hear(self) -> Any:
        """Takes in one answer and checks it; returns it."""
        assert self.line is not None
        message, descriptors = self.line.hear()
        assert message.request not in self.answered, "one request was answered twice"
        self.answered.add(message.request)
        ask = self.outstanding.pop(message.request, None)
        if ask is not None:
            self._check(ask, message, descriptors)
        if self._rng.random() < 0.5:
            self._files.close_all(descriptors)
        return message

    def _check(self, ask: Ask, message: Any, descriptors: list[int]) -> None:
        match message:
            case wire.Image():
                assert ask.kind in TIERS or ask.kind == "fetch", f"an image for {ask.kind}"
                file = self._files.file_of(descriptors[0])
                assert message.key == ask.key == file.header.key, "the image of another key"
                if ask.kind != "vocabulary":
                    assert message.generation == file.header.generation == file.made_in, "an image of another lease"
                    assert message.generation >= ask.cleared, "an image of before a clear that had returned"
                assert ask.key not in REFUSED_KEYS, "an image of what is no grammar"
            case wire.Refused(_, "VOCABULARY_MISSING"):
                self.wanted.append(ask.key)
                if not self.waits_for_vocabulary:
                    self.compile(VOCABULARY, 0, kind="vocabulary")
            case wire.Refused(_, code):
                assert ask.kind in TIERS, f"{ask.kind} was refused with {code}"
                if ask.kind == "vocabulary":
                    # Without it the manager is of no use: the real client compiles for itself.
                    self.wanted.clear()
            case wire.Cleared(_, generation):
                assert ask.kind == "clear"
                assert generation > ask.cleared, "a clear that opened no new generation"
                self.cleared = max(self.cleared, generation)
            case wire.Evicted():
                assert ask.kind == "evict"
            case wire.Missing():
                assert ask.kind == "fetch"
            case wire.Welcome():
                assert ask.kind == "hello"
                assert message.generation >= ask.cleared
            case _:
                raise AssertionError(f"nobody asks for {message}")
