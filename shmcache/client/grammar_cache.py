"""The client: look up, ask, fall back.

Owns the public names and the order of the three. Must never fail because a manager is missing.
"""

from __future__ import annotations

import logging
import os
import weakref
from collections.abc import Callable, Hashable, Iterable
from typing import Any

from shmcache.client.attachment import Attachment
from shmcache.client.host import FETCH_SECONDS_MAX, Host
from shmcache.client.link import LinkClosedError, ReplyTimeoutError
from shmcache.client.local_table import Held, LocalTable
from shmcache.client.manager_access import ManagerAccess
from shmcache.client.single_flight import SingleFlight
from shmcache.errors import ManagerUnavailable
from shmcache.grammar.key import Options, Source, text_digest
from shmcache.manager.client_messages import Clear, Cleared, Refused, Status, StatusReply
from shmcache.manager.fields import WireError
from shmcache.manager.wire import expect
from shmcache.matcher.compiled_grammar import CompiledGrammar
from shmcache.memory.names import Namespace
from shmcache.memory.statistics import statistics
from shmcache.vocabulary.vocabulary import Vocabulary

RAW_TEXT_LENGTH_MAX = 1 << 16
"""Characters of a source that is remembered as it was written; longer ones are by a digest."""

CLEAR_SECONDS_MAX = 10.0

_log = logging.getLogger("shmcache")
_caches: weakref.WeakSet[GrammarCache] = weakref.WeakSet()


def connect(vocab: Vocabulary, name: str | None = None, autostart: bool = True) -> GrammarCache:
    """The host's grammar cache for one vocabulary.

    ``name`` is the namespace (None: ``SHMCACHE_NAMESPACE`` or ``default``). When no manager answers, ``autostart``
    starts one, which outlives this process; failing that, grammars are compiled in this process.
    """
    return GrammarCache(vocab, Namespace.of(name), may_start=autostart)


class GrammarCache:
    """Compiled grammars of one vocabulary, shared by all processes of this user on this host. Thread-safe.

    Made by :func:`connect`; as a context manager it closes itself.
    The compile methods raise :class:`SourceError`, :class:`UnsupportedError` or :class:`LimitError`. Their ``timeout``
    is in seconds (None: the manager's own limit).
    """

    def __init__(self, vocab: Vocabulary, namespace: Namespace, *, may_start: bool) -> None:
        self._vocabulary = vocab
        self._access = ManagerAccess(namespace, vocab.fingerprint, may_start=may_start)
        self._host = Host(self._access, vocab)
        self._table = LocalTable()
        self._valid = (self._access.attachment, self._access.attachment.generation)
        self._flights: SingleFlight[Held] = SingleFlight()
        self._is_closed = False
        _caches.add(self)
        weakref.finalize(self, self._access.close)
        self._access.attach()
        try:
            self._access.link()
        except ManagerUnavailable as error:
            _log.info("no manager of namespace %r: %s", namespace.name, error)

    def compile_json_schema(
        self,
        schema: Any,
        any_whitespace: bool = True,
        indent: int | None = None,
        separators: tuple[str, str] | None = None,
        strict_mode: bool = True,
        max_whitespace_cnt: int | None = None,
        on_unsupported: str = "error",
        timeout: float | None = None,
        *,
        canonical_numbers: bool = True,
        any_order: bool = False,
    ) -> CompiledGrammar:
        """Compiles a JSON Schema: its text, the parsed document, or a pydantic model class.

        The options are those of :func:`shmcache.compile_json_schema`.
        """
        is_text = type(schema) is str and (separators is None or type(separators) is tuple)
        raw: Hashable = None
        if is_text and len(schema) <= RAW_TEXT_LENGTH_MAX:
            options = (any_whitespace, indent, separators, strict_mode, max_whitespace_cnt, on_unsupported)
            raw = (schema, *options, canonical_numbers, any_order)
            held = self._table.find(raw, self._access.attachment)
            if held is not None:
                return held.grammar

        named: tuple[tuple[str, Any], ...] = (  # sorted, as the options of a source are
            ("any_order", any_order),
            ("any_whitespace", any_whitespace),
            ("canonical_numbers", canonical_numbers),
            ("indent", indent),
            ("max_whitespace_cnt", max_whitespace_cnt),
            ("on_unsupported", on_unsupported),
            ("separators", separators),
            ("strict_mode", strict_mode),
        )

        def source() -> Source:
            return Source.json_schema(schema, **dict(named))

        if not is_text:
            return self._compile(source(), raw, timeout)
        return self._compile_text("json_schema", schema, named, source, raw, timeout)

    def compile_grammar(self, ebnf: str, root_rule_name: str = "root", timeout: float | None = None) -> CompiledGrammar:
        """Compiles an EBNF grammar."""
        held = self._table.find(("ebnf", ebnf, root_rule_name), self._access.attachment)
        if held is not None:
            return held.grammar
        source = Source.ebnf(ebnf, root_rule_name)
        return self._compile(source, _raw_name("ebnf", ebnf, root_rule_name), timeout)

    def compile_regex(self, pattern: str, timeout: float | None = None) -> CompiledGrammar:
        """Compiles a regular expression that the whole output matches."""
        held = self._table.find(("regex", pattern), self._access.attachment)
        if held is not None:
            return held.grammar
        return self._compile(Source.regex(pattern), _raw_name("regex", pattern), timeout)

    def compile_structural_tag(
        self, tag: Any, triggers: Iterable[str] | None = None, timeout: float | None = None
    ) -> CompiledGrammar:
        """Compiles a structural tag: its JSON text, the parsed document, or a pydantic object that stands for one.

        With ``triggers``, ``tag`` is the list of tags of the older interface.
        """
        if type(tag) is not str or triggers is not None:
            return self._compile(Source.structural_tag(tag, triggers), None, timeout)
        held = self._table.find(("structural_tag", tag), self._access.attachment)
        if held is not None:
            return held.grammar
        raw = _raw_name("structural_tag", tag)
        return self._compile_text("structural_tag", tag, (), lambda: Source.structural_tag(tag), raw, timeout)

    def compile_builtin_json_grammar(self, timeout: float | None = None) -> CompiledGrammar:
        """Compiles the grammar of any JSON value."""
        held = self._table.find("builtin_json", self._access.attachment)
        if held is not None:
            return held.grammar
        return self._compile(Source.builtin_json(), "builtin_json", timeout)

    def clear_cache(self) -> None:
        """Opens a new generation: nothing cached before is found any more, by any process. Waits for no compile.

        Raises :class:`ManagerUnavailable` when there is a shared cache and no manager to clear it.
        """
        self._table.clear()
        try:
            try:
                self._ask_clear()
            except LinkClosedError:
                # The manager died; whether it had cleared or not, clearing again does no harm.
                self._ask_clear()
        except (LinkClosedError, ReplyTimeoutError, WireError) as error:
            raise ManagerUnavailable("the manager did not clear the cache") from error
        except ManagerUnavailable:
            if self._access.attach().is_usable:
                raise
            # No generation ends here, but the attachment under which grammars of before are held.
            self._access.detach()
        finally:
            # And what other threads put here meanwhile and is of before the clear.
            self._let_go()

    def _ask_clear(self) -> None:
        with self._access.link().ask(Clear, timeout=CLEAR_SECONDS_MAX) as answer:
            if isinstance(answer.message, Refused):
                raise answer.message.error()
            expect(answer.message, Cleared)

    def has_manager(self) -> bool:
        """Whether a manager serves this client: one that answered, or that was started just now."""
        try:
            self._access.link()
        except ManagerUnavailable:
            return False
        return True

    def get_cache_size_bytes(self) -> int:
        """Bytes charged to the cache's grammars and rules on this host; 0 right after :meth:`clear_cache`."""
        shared = self._access.attach().shared
        return shared.control.totals().cache_bytes if shared else 0

    def stats(self) -> dict[str, Any]:
        """The cache's state and counters; see the documentation for the shape. Without a manager, what is in memory."""
        try:
            with self._access.link().ask(Status, timeout=FETCH_SECONDS_MAX) as answer:
                return dict(expect(answer.message, StatusReply).stats)
        except (ManagerUnavailable, LinkClosedError, ReplyTimeoutError, WireError):
            attachment = self._access.attach()
            return statistics(attachment.shared.control if attachment.shared else None, attachment.recency)

    def close(self) -> None:
        """Ends the connection, forgets the grammars; those given out stay valid. Compiling raises ValueError then."""
        self._is_closed = True
        self._access.close()
        self._let_go()

    def __enter__(self) -> GrammarCache:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _compile_text(
        self,
        kind: str,
        text: str,
        options: Options,
        make_source: Callable[[], Source],
        raw: Hashable,
        timeout: float | None,
    ) -> CompiledGrammar:
        """The grammar of a JSON text that was not found under its raw name: by its digest, or as its source's."""
        digest = text_digest(kind, text, options, self._vocabulary.fingerprint)
        if digest is None:
            return self._compile(make_source(), None, timeout)
        attachment = self._attached()
        held = self._table.find(digest, attachment) if raw is None else None
        if held is not None:
            return held.grammar
        name = digest if raw is None else raw
        held = self._host.find_text(digest, lambda key: self._table.find(key, attachment))
        if held is None:
            return self._compile(make_source(), name, timeout)
        return self._keep(held, name)

    def _attached(self) -> Attachment:
        """The attachment, with nothing held of an older one or an older generation."""
        if self._is_closed:
            raise ValueError("this cache is closed")
        attachment = self._access.attach()
        if self._valid != (attachment, attachment.generation):
            self._let_go()
        return attachment

    def _compile(self, source: Source, raw: Hashable, timeout: float | None) -> CompiledGrammar:
        """The grammar of a source that was not found under its raw name: by key, on the host, or compiled."""
        attachment = self._attached()
        key = source.key(self._vocabulary.fingerprint)
        held = self._table.find(key, attachment)
        if held is None:
            held = self._host.find(key) or self._flights.run(
                (attachment, attachment.generation, key, timeout),
                lambda: self._compile_once(source, key, timeout),
                attachment.note_coalesced,
            )
        return self._keep(held, raw)

    def _keep(self, held: Held, raw: Hashable) -> CompiledGrammar:
        """Has the grammar found in this process from here on, under its key and the name of the request."""
        for name in (held.grammar.key, raw):
            if name is not None:
                self._table.put(name, held, self._access.attachment)
        return held.grammar

    def _let_go(self) -> None:
        """Forgets what was found so far: of an older generation it is of no use, and mapped it cannot be freed."""
        attachment = self._access.attachment
        self._valid = (attachment, attachment.generation)
        self._table.clear()
        if attachment.shared is not None:
            attachment.shared.drop_mappings()

    def _compile_once(self, source: Source, key: bytes, timeout: float | None) -> Held:
        self._access.attachment.note_miss()
        return self._host.compile(source, key, timeout)

    def _after_fork(self) -> None:
        self._access.after_fork()
        self._table.after_fork()
        self._flights.after_fork()


def _raw_name(*parts: str) -> Hashable:
    return parts if sum(map(len, parts)) <= RAW_TEXT_LENGTH_MAX else None


def _after_fork_in_child() -> None:
    for cache in list(_caches):
        cache._after_fork()


os.register_at_fork(after_in_child=_after_fork_in_child)
