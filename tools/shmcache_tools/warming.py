"""Having many sources compiled before anybody asks for them.

Owns the conversation: several compiles at once on one connection, what is cached left out. Must never compile here, nor
map a grammar: what is warmed is for others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from shmcache import settings
from shmcache.errors import ShmCacheError
from shmcache.manager.descriptors import in_memory, inline_or_in_memory
from shmcache.manager.fields import Message
from shmcache.manager.wire import Compile, Image, Refused, expect
from shmcache.memory.layout import Tier
from shmcache_tools.manager_link import ManagerLink
from shmcache_tools.shared_stats import SharedView
from shmcache_tools.source_files import Line

if TYPE_CHECKING:
    from shmcache.vocabulary.vocabulary import Vocabulary

VOCABULARY_MISSING = "VOCABULARY_MISSING"


@dataclass(slots=True)
class Outcome:
    """What became of the lines. ``not_stored`` were compiled, but there was no room for them."""

    compiled: int = 0
    cached: int = 0
    not_stored: int = 0
    refused: list[tuple[Line, ShmCacheError]] = field(default_factory=list)
    keys: set[bytes] = field(default_factory=set)

    @property
    def done(self) -> int:
        """Lines that need no more work."""
        return self.compiled + self.cached + self.not_stored + len(self.refused)

    @property
    def worked(self) -> int:
        """Lines for which something was compiled."""
        return self.compiled + self.not_stored


class Warmer:
    """Warms one cache for one vocabulary, ``at_once`` compiles at a time."""

    def __init__(self, link: ManagerLink, view: SharedView, vocabulary: Vocabulary, *, at_once: int) -> None:
        self._link = link
        self._view = view
        self._vocabulary = vocabulary
        self._at_once = at_once
        self._asked: dict[int, tuple[Line, bytes]] = {}
        self._again: list[tuple[Line, bytes]] = []
        self.outcome = Outcome()

    def run(self, lines: Iterable[Line], tell: Callable[[Outcome], None]) -> None:
        """Goes through the lines; ``tell`` is called after each.

        Raises :class:`ManagerUnavailable` when the manager is gone, with what was done until then in :attr:`outcome`.
        """
        self._offer_vocabulary()
        for line in lines:
            self._begin(line)
            tell(self.outcome)
            while len(self._asked) >= self._at_once or self._again:
                self._finish_one()
                tell(self.outcome)
        while self._asked:
            self._finish_one()
            tell(self.outcome)

    def left_in_cache(self) -> int:
        """How many of the sources are in the cache now: fewer than were compiled if some had to go for others."""
        return sum(self._view.index.look_up(key) is not None for key in self.outcome.keys)

    def _begin(self, line: Line) -> None:
        if line.source is None:
            assert line.error is not None
            self.outcome.refused.append((line, line.error))
            return
        key = line.source.key(self._vocabulary.fingerprint)
        if self._view.index.look_up(key) is not None or key in (asked for _, asked in self._asked.values()):
            self.outcome.cached += 1
            self.outcome.keys.add(key)
            return
        self._asked[self._ask(line, key)] = line, key

    def _ask(self, line: Line, key: bytes) -> int:
        assert line.source is not None
        with inline_or_in_memory(line.source.to_bytes()) as (data, descriptors):

            def make(request: int) -> Message:
                return Compile(
                    request=request,
                    kind="grammar",
                    key=key,
                    vocabulary_key=self._vocabulary.fingerprint,
                    source=data,
                    descriptors=len(descriptors),
                )

            return self._link.start(make, descriptors)

    def _finish_one(self) -> None:
        request, message = self._link.next_answer(settings.REQUEST_SECONDS.value())
        asked = self._asked.pop(request, None)
        if asked is not None:
            self._take(*asked, message)
        if self._again and not self._asked:
            self._send_vocabulary()
            again, self._again = self._again, []
            for line, key in again:
                self._asked[self._ask(line, key)] = line, key

    def _take(self, line: Line, key: bytes, message: Message) -> None:
        if isinstance(message, Refused):
            if message.code == VOCABULARY_MISSING:
                self._again.append((line, key))
            else:
                self.outcome.refused.append((line, message.error()))
        elif expect(message, Image).serial:
            self.outcome.compiled += 1
            self.outcome.keys.add(key)
        else:
            self.outcome.not_stored += 1

    def _offer_vocabulary(self) -> None:
        entry = self._view.index.look_up(self._vocabulary.fingerprint)
        if entry is None or entry.tier is not Tier.VOCABULARY:
            self._send_vocabulary()

    def _send_vocabulary(self) -> None:
        """Sends it and waits until it is there; nothing else is asked at that time."""
        fingerprint = self._vocabulary.fingerprint
        with in_memory(self._vocabulary.to_bytes()) as descriptor:

            def make(request: int) -> Message:
                return Compile(request, "vocabulary", fingerprint, fingerprint, b"", descriptors=1)

            request = self._link.start(make, [descriptor])
            answered, message = self._link.next_answer(settings.REQUEST_SECONDS.value())
        assert answered == request, "an answer to what was not asked"
        if isinstance(message, Refused):
            raise message.error()
