"""Walks JSON texts through the automaton that the matcher runs on, remembering every step.

Owns the quick answer to "is this text in the language", and the search for an order of members in which an instance is.
The same sets of (state, stack) as ``tests.reference.configurations``, with stacks as nested pairs so that a text of
many levels stays cheap.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from shmcache.automaton.grammar_automaton import TAIL_CALL, GrammarAutomaton

Stack = tuple[int, Any] | None
Entries = frozenset[tuple[int, Stack]]
SEARCH_STEPS_MAX = 200_000


class Walker:
    """Configurations of one grammar automaton, and their steps."""

    def __init__(self, automaton: GrammarAutomaton) -> None:
        self._automaton = automaton
        self._edges = lru_cache(maxsize=None)(automaton.edges_of)
        self._calls = lru_cache(maxsize=None)(automaton.calls_of)
        self._known: dict[tuple[int, int], int] = {}
        self._numbers: dict[tuple[Entries, bool], int] = {}
        self._configurations: list[tuple[Entries, bool]] = []
        self._search_steps = 0
        self._hint: list[list[str]] = []
        self.start = self._number({(0, None)})

    def _number(self, entries: set[tuple[int, Stack]]) -> int:
        """The number of the configuration that ``entries`` lead to without a byte."""
        seen, pending, ended = set(entries), list(entries), False
        while pending:
            state, stack = pending.pop()
            found: list[tuple[int, Stack]] = []
            if self._automaton.final[state]:
                if stack is None:
                    ended = True
                else:
                    found.append(stack)
            for rule, behind in self._calls(state):
                start = int(self._automaton.rule_start[rule])
                found.append((start, stack if behind == TAIL_CALL else (behind, stack)))
            fresh = [entry for entry in found if entry not in seen]
            seen.update(fresh)
            pending.extend(fresh)
        key = (frozenset(entry for entry in seen if self._edges(entry[0])), ended)
        if key not in self._numbers:
            self._numbers[key] = len(self._configurations)
            self._configurations.append(key)
        return self._numbers[key]

    def advance(self, configuration: int, data: bytes) -> int:
        """The number of the configuration after ``data``."""
        for byte in data:
            key = (configuration, byte)
            following = self._known.get(key)
            if following is None:
                entries = self._configurations[configuration][0]
                following = self._known[key] = self._number(
                    {
                        (target, stack)
                        for state, stack in entries
                        for low, high, target in self._edges(state)
                        if low <= byte <= high
                    }
                )
            configuration = following
        return configuration

    def is_alive(self, configuration: int) -> bool:
        """Whether something may follow, or the text may end here."""
        entries, ended = self._configurations[configuration]
        return bool(entries) or ended

    def is_whole(self, configuration: int) -> bool:
        """Whether the text may end here."""
        return self._configurations[configuration][1]

    def next_bytes(self, configuration: int) -> list[int]:
        """Of each run of bytes that may follow, the first."""
        entries, _ = self._configurations[configuration]
        return sorted({low for state, _ in entries for low, _, _ in self._edges(state)})

    def accepts(self, data: bytes) -> bool:
        """Whether ``data`` is a whole text."""
        return self._configurations[self.advance(self.start, data)][1]

    def accepts_in_some_order(self, instance: Any, hint: list[list[str]]) -> bool:
        """Whether the instance, as compact text, is a whole text with the members of its objects in some order.

        ``hint`` is a list of the names of properties of all objects of the schema: the members of an object are tried
        first in the order of the list that has most of them.
        """
        self._search_steps = 0
        self._hint = hint
        return any(self._configurations[end][1] for end in self._ends(self.start, instance))

    def _ends(self, configuration: int, value: Any) -> Iterator[int]:
        self._search_steps += 1
        if self._search_steps > SEARCH_STEPS_MAX or not self.is_alive(configuration):
            return
        if isinstance(value, dict) and value:
            yield from self._object_ends(self.advance(configuration, b"{"), self._sorted(value), set(), is_first=True)
        elif isinstance(value, list) and value:
            yield from self._array_ends(self.advance(configuration, b"["), value, 0)
        else:
            yield self.advance(configuration, json.dumps(value).encode())

    def _sorted(self, members: dict[str, Any]) -> dict[str, Any]:
        best = max(self._hint, key=lambda names: len(members.keys() & names), default=[])
        order = {name: at for at, name in enumerate(best)}
        return {name: members[name] for name in sorted(members, key=lambda name: order.get(name, len(order)))}

    def _array_ends(self, configuration: int, items: list[Any], at: int) -> Iterator[int]:
        if at == len(items):
            yield self.advance(configuration, b"]")
            return
        here = self.advance(configuration, b"," if at else b"")
        for end in self._ends(here, items[at]):
            yield from self._array_ends(end, items, at + 1)

    def _object_ends(
        self, configuration: int, members: dict[str, Any], seen: set[tuple[int, frozenset[str]]], *, is_first: bool
    ) -> Iterator[int]:
        here_before = (configuration, frozenset(members))
        if here_before in seen:
            return  # by another order of the same members, which led to the same
        seen.add(here_before)
        if not members:
            yield self.advance(configuration, b"}")
            return
        here = self.advance(configuration, b"" if is_first else b",")
        for name, value in members.items():
            behind_name = self.advance(here, json.dumps(name).encode() + b":")
            if not self.is_alive(behind_name):
                continue
            rest = {other: inner for other, inner in members.items() if other != name}
            for end in self._ends(behind_name, value):
                yield from self._object_ends(end, rest, seen, is_first=False)
