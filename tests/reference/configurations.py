"""The slow, obvious twin of the kernels that walk an automaton: sets of (state, stack) with stacks as tuples."""

from __future__ import annotations

from dataclasses import dataclass

from shmcache.automaton.grammar_automaton import TAIL_CALL, GrammarAutomaton

Stack = tuple[int, ...]
"""Return states, the innermost last."""


ENTRIES_MAX = 100
"""Where the sets grow larger, kernels may reach their own limit and leave open what the twin would decide."""


class TooAmbiguousError(Exception):
    """The sets exceed :data:`ENTRIES_MAX`."""


@dataclass(frozen=True)
class Configuration:
    """Where a matcher may be. ``ended`` says whether the text so far is a whole text of the grammar."""

    entries: frozenset[tuple[int, Stack]]
    ended: bool

    @property
    def is_alive(self) -> bool:
        """Whether the text so far begins some text of the grammar."""
        return bool(self.entries) or self.ended


def close(automaton: GrammarAutomaton, entries: set[tuple[int, Stack]]) -> Configuration:
    """Opens calls and returns from ended rules until nothing is added; keeps the entries that can consume a byte."""
    seen = set(entries)
    pending = list(entries)
    ended = False
    while pending:
        state, stack = pending.pop()
        found: list[tuple[int, Stack]] = []
        if automaton.final[state]:
            if stack:
                found.append((stack[-1], stack[:-1]))
            else:
                ended = True
        for rule, return_state in automaton.calls_of(state):
            below = stack if return_state == TAIL_CALL else (*stack, return_state)
            found.append((int(automaton.rule_start[rule]), below))
        for entry in found:
            if entry not in seen:
                seen.add(entry)
                pending.append(entry)
        if len(seen) > ENTRIES_MAX:
            raise TooAmbiguousError
    return Configuration(frozenset(entry for entry in seen if automaton.edges_of(entry[0])), ended)


def initial(automaton: GrammarAutomaton) -> Configuration:
    """The configuration before any byte."""
    closed = close(automaton, {(0, ())})
    return Configuration(closed.entries, closed.ended or automaton.root_nullable)


def advance(automaton: GrammarAutomaton, configuration: Configuration, data: bytes) -> Configuration:
    """The configuration after ``data``."""
    for byte in data:
        moved = {
            (target, stack)
            for state, stack in configuration.entries
            for low, high, target in automaton.edges_of(state)
            if low <= byte <= high
        }
        configuration = close(automaton, moved)
    return configuration
