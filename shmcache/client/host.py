"""The host's cache as one client uses it: find a grammar there, have it compiled, or compile it here.

Owns what is asked of the manager about grammars and vocabularies, and which failures lead to a compile in this
process. Must never keep a grammar: that is the local table's.
"""

from __future__ import annotations

import contextlib
import logging
import time
import weakref
from collections.abc import Callable

from shmcache import private, settings
from shmcache.client.attachment import Attachment
from shmcache.client.link import Answer, Link, LinkClosedError, ReplyTimeoutError
from shmcache.client.local_table import Held
from shmcache.client.manager_access import ManagerAccess
from shmcache.errors import LimitError, ManagerUnavailable, SegmentError, ShmCacheError, SourceError, UnsupportedError
from shmcache.grammar.key import Source
from shmcache.image.attached_source import attached_source
from shmcache.image.first_mask import first_mask
from shmcache.image.image import Image as GrammarImage
from shmcache.image.image import find_image
from shmcache.limits import COMPILE_SECONDS_CEILING
from shmcache.manager.client_messages import Compile, Evict, Fetch, Image, Missing, Refused
from shmcache.manager.descriptors import in_memory, inline_or_in_memory
from shmcache.manager.fields import Message, WireError
from shmcache.manager.logs import key_prefix
from shmcache.manager.parts import split_vocabulary
from shmcache.manager.wire import expect
from shmcache.matcher.bitmask import word_count
from shmcache.matcher.compiled_grammar import CompiledGrammar
from shmcache.memory.account import Entry
from shmcache.memory.segments import Mapping, map_segment
from shmcache.vocabulary.trie import Trie
from shmcache.vocabulary.vocabulary import Vocabulary

ATTEMPTS_MAX = 2
"""Managers that are asked: the second one when the first dies while it works for us."""

GRACE_SECONDS = 1.0
"""How long after its deadline the manager's word on a compile is waited for."""

FETCH_SECONDS_MAX = 5.0

_REFUSALS = (SourceError, UnsupportedError, LimitError)
"""What is wrong with the source is wrong in this process too; any other refusal is a matter of the manager."""

_FAILURES = (ManagerUnavailable, LinkClosedError, ReplyTimeoutError, WireError, SegmentError, OSError)

_log = logging.getLogger("shmcache")


class NotServedError(Exception):
    """The manager cannot compile this now, for a reason that does not lie in the source."""


class Host:
    """Finds and makes grammars for one vocabulary. Safe for several threads."""

    def __init__(self, access: ManagerAccess, vocabulary: Vocabulary) -> None:
        self._access = access
        self._vocabulary = vocabulary
        self._has_told_of_fallback = False
        shared_trie = weakref.WeakMethod(self._shared_trie)
        # Weakly: the vocabulary may outlive the cache.
        vocabulary.look_for_trie(lambda: find() if (find := shared_trie()) is not None else None)

    def find(self, key: bytes) -> Held | None:
        """The grammar of that key if the host has it: without a call, or where that does not work by ``fetch``.

        The hit is counted and noted as a use.
        """
        attachment = self._access.attach()
        shared = attachment.shared
        if shared is None:
            return None
        if shared.lock_free:
            return self._opened(shared.open_entry(key), attachment)
        held = self._fetch(key)
        if held is not None:
            held.attachment.note_hit(held.slot)
        return held

    def find_text(self, text_digest: bytes, find_held: Callable[[bytes], Held | None]) -> Held | None:
        """The grammar that was made of the text with that digest, if the host has it and a hint leads to it.

        ``find_held`` is asked first for what this process holds under the grammar's key.
        """
        attachment = self._access.attach()
        shared = attachment.shared
        if shared is None or not shared.lock_free:
            return None
        found = shared.open_text(text_digest)
        held = None if found is None else find_held(found[0].key)
        return held or self._opened(found, attachment)

    def _opened(self, found: tuple[Entry, Mapping] | None, attachment: Attachment) -> Held | None:
        if found is None:
            return None
        entry, mapping = found

        def mend(error: SegmentError) -> GrammarImage:
            return self._made_anew(entry.key, mapping, error)

        try:
            held = self._hold(mapping, attachment, entry.generation, entry, mend)
        except SegmentError as error:
            self._report_damage(entry.key, error)
            return None
        attachment.note_hit(entry.slot)
        return held

    def compile(self, source: Source, key: bytes, timeout: float | None) -> Held:
        """The grammar of ``source``, compiled by the manager's workers or, where that cannot be, here.

        Raises :class:`SourceError`, :class:`UnsupportedError` or :class:`LimitError`; never for want of a manager.
        """
        reason: Exception | None = None
        for _ in range(ATTEMPTS_MAX):
            try:
                return self._ask_compile(self._access.link(), source, key, timeout)
            except LinkClosedError as error:
                reason = error
            except ReplyTimeoutError as error:
                if timeout is not None:
                    raise _too_slow(timeout) from None
                reason = error
                break
            except (NotServedError, *_FAILURES) as error:
                reason = error
                break
        return self._compile_here(source, timeout, reason)

    def _compile_here(self, source: Source, timeout: float | None, reason: Exception | None) -> Held:
        if not self._has_told_of_fallback:
            self._has_told_of_fallback = True
            why = reason or "no manager"
            fields = {"code": reason.code} if isinstance(reason, ShmCacheError) else {}
            _log.info("grammars are compiled in this process, as the manager cannot do it: %s", why, extra=fields)
        attachment = self._access.attachment
        generation = attachment.generation
        attachment.note_private()
        began = time.perf_counter()
        grammar = private.compile_source(source, self._vocabulary, timeout=timeout)
        made = {"key": key_prefix(grammar.key), "seconds": round(time.perf_counter() - began, 6)}
        _log.debug("compiled %s in this process in %.3f s", *made.values(), extra=made)
        return Held(grammar, attachment, generation, None)

    def _ask_compile(self, link: Link, source: Source, key: bytes, timeout: float | None) -> Held:
        self._offer_vocabulary(link)
        try:
            return self._compile_there(link, source, key, timeout)
        except _VocabularyMissingError:
            self._send_vocabulary(link)
            return self._compile_there(link, source, key, timeout)

    def _compile_there(self, link: Link, source: Source, key: bytes, timeout: float | None) -> Held:
        with inline_or_in_memory(source.to_bytes()) as (data, descriptors):

            def make(number: int) -> Message:
                return Compile(
                    request=number,
                    kind="grammar",
                    key=key,
                    vocabulary_key=self._vocabulary.fingerprint,
                    source=data,
                    seconds_max=0.0 if timeout is None else min(max(timeout, 0.001), COMPILE_SECONDS_CEILING),
                    descriptors=len(descriptors),
                )

            wait_seconds = settings.REQUEST_SECONDS.value() if timeout is None else timeout + GRACE_SECONDS
            with link.ask(make, descriptors=descriptors, timeout=wait_seconds) as answer:
                return self._take(key, answer)

    def _take(self, key: bytes, answer: Answer) -> Held:
        """The grammar in a reply to ``compile`` or ``fetch``; perhaps of an older generation, for this caller only."""
        if isinstance(answer.message, Refused):
            _raise_refusal(answer.message)
        image = expect(answer.message, Image)
        mapping = map_segment(answer.descriptors[0])
        if mapping.header.key != key or mapping.header.generation != image.generation:
            raise SegmentError("the manager handed over another grammar than it was asked for")
        attachment = self._access.attachment
        entry = attachment.shared.index.look_up(key) if attachment.shared else None
        if entry is not None and entry.serial != mapping.header.serial:
            entry = None
        return self._hold(mapping, attachment, image.generation, entry, None)

    def _hold(
        self,
        mapping: Mapping,
        attachment: Attachment,
        generation: int,
        entry: Entry | None,
        mend: Callable[[SegmentError], GrammarImage] | None,
    ) -> Held:
        """The grammar in a segment.

        If ``mend`` can make another image of a damaged one, and the first mask is known without it, the image is not
        looked at before it is needed.
        """
        image = find_image(mapping.payload, expected_key=mapping.header.key)
        mask = first_mask(mapping.payload, word_count(image.width))
        if mask is None or mend is None:
            image.open()
        else:
            image.mend = mend
        grammar = CompiledGrammar(
            image,
            self._vocabulary,
            generation=generation,
            memory_size_bytes=entry.charged_bytes if entry else mapping.size_bytes,
            first_mask=mask,
        )
        return Held(grammar, attachment, generation, entry.slot if entry else None)

    def _fetch(self, key: bytes) -> Held | None:
        try:
            link = self._access.link()
            with link.ask(lambda number: Fetch(number, "grammar", key), timeout=FETCH_SECONDS_MAX) as answer:
                return None if isinstance(answer.message, Missing) else self._take(key, answer)
        except (NotServedError, *_REFUSALS, *_FAILURES) as error:
            _log.debug("the cache could not be asked: %s", error)
            return None

    def _made_anew(self, key: bytes, mapping: Mapping, error: SegmentError) -> GrammarImage:
        """The image of a grammar whose segment was found damaged, compiled from the source that is still in there.

        Raises ``error`` where that is damaged, too, and what :meth:`compile` raises.
        """
        self._report_damage(key, error)
        try:
            data = attached_source(mapping.payload)
            source = None if data is None else Source.from_bytes(data)
        except (SegmentError, SourceError):
            raise error from None
        if source is None or source.key(self._vocabulary.fingerprint) != key:
            raise error
        return self.compile(source, key, None).grammar.image

    def _report_damage(self, key: bytes, error: SegmentError) -> None:
        fields = {"key": key_prefix(key), "code": error.code}
        _log.warning(
            "the cached grammar %s is damaged and will be compiled again: %s", fields["key"], error, extra=fields
        )
        with contextlib.suppress(*_FAILURES):
            self._access.link().ask(lambda number: Evict(number, key), timeout=FETCH_SECONDS_MAX).__exit__()

    def _offer_vocabulary(self, link: Link) -> None:
        """Sends the vocabulary unless the index says that the host has it."""
        shared = self._access.attachment.shared
        if shared is not None and shared.lock_free and shared.index.look_up(self._vocabulary.fingerprint) is None:
            self._send_vocabulary(link)

    def _send_vocabulary(self, link: Link) -> None:
        fingerprint = self._vocabulary.fingerprint
        with in_memory(self._vocabulary.to_bytes()) as descriptor:

            def make(number: int) -> Message:
                return Compile(number, "vocabulary", fingerprint, fingerprint, b"", descriptors=1)

            wait_seconds = settings.REQUEST_SECONDS.value()
            with link.ask(make, descriptors=[descriptor], timeout=wait_seconds) as answer:
                if isinstance(answer.message, Refused):
                    raise NotServedError(f"the vocabulary was refused: {answer.message.message}")

    def _shared_trie(self) -> Trie | None:
        """The vocabulary's trie in shared memory, if it is there: nobody need build a private one then."""
        shared = self._access.attachment.shared
        if shared is None or not shared.lock_free:
            return None
        found = shared.open_entry(self._vocabulary.fingerprint)
        if found is None:
            return None
        try:
            trie = Trie.from_buffer(split_vocabulary(found[1].payload)[1])
        except SegmentError as error:
            _log.warning("the shared vocabulary is not usable: %s", error)
            return None
        return trie if trie.fingerprint == self._vocabulary.fingerprint else None


class _VocabularyMissingError(NotServedError):
    """The manager does not have our vocabulary any more, or never had."""


def _raise_refusal(refused: Refused) -> None:
    if refused.code == "VOCABULARY_MISSING":
        raise _VocabularyMissingError(refused.message)
    error: ShmCacheError = refused.error()
    if isinstance(error, _REFUSALS):
        raise error
    raise NotServedError(f"{refused.code}: {refused.message}")


def _too_slow(timeout: float) -> LimitError:
    return LimitError(f"compiling took longer than {timeout} s", limit="seconds", value=timeout)
