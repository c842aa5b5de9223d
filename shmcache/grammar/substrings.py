"""All contiguous parts of a sequence of chunks.

Owns the suffix automaton and its spelling in bytes. Must never know where the chunks come from.

The automaton is that of Blumer, Blumer, Haussler, Ehrenfeucht, Chen and Seiferas (1985), built chunk by chunk: at most
twice as many states, and three times as many transitions, as there are chunks. All transitions into a state bear the
same chunk, so each state is spelt once and its bytes in all are at most twice those of the text.
"""

from __future__ import annotations

from collections.abc import Sequence

from shmcache.limits import Budget
from shmcache.regular.dfa import Dfa, Edge, trim


def substrings(chunks: Sequence[str], budget: Budget) -> Dfa:
    """The UTF-8 of every run of neighbouring ``chunks``, the empty one included. Nearly minimal.

    Linear where no chunk begins with another, and where few do. Raises :class:`LimitError`.
    """
    automaton = _SuffixAutomaton(budget)
    for chunk in chunks:
        if chunk:
            automaton.append(chunk.encode())
    return _spelt(automaton, budget)


class _SuffixAutomaton:
    """State 0 is the start. ``transitions[s]`` leads by chunk; ``chunk_into[s]`` is what all transitions to s bear."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self.transitions: list[dict[bytes, int]] = [{}]
        self.chunk_into = [b""]
        self._length = [0]
        self._link = [-1]
        self._last = 0

    def append(self, chunk: bytes) -> None:
        """Makes the text longer by ``chunk``."""
        fresh = self._add_state(chunk, self._length[self._last] + 1, {})
        state = self._last
        while state >= 0 and chunk not in self.transitions[state]:
            self.transitions[state][chunk] = fresh
            self._budget.spend_edges()
            state = self._link[state]
        self._last = fresh
        if state < 0:
            self._link[fresh] = 0
            return
        target = self.transitions[state][chunk]
        if self._length[target] > self._length[state] + 1:
            target = self._split(state, chunk, target)
        self._link[fresh] = target

    def _split(self, state: int, chunk: bytes, target: int) -> int:
        """Takes the shorter words out of ``target``, which now may end in more places than its longer ones."""
        clone = self._add_state(chunk, self._length[state] + 1, dict(self.transitions[target]))
        self._budget.spend_edges(len(self.transitions[clone]))
        self._link[clone] = self._link[target]
        self._link[target] = clone
        while state >= 0 and self.transitions[state].get(chunk) == target:
            self.transitions[state][chunk] = clone
            state = self._link[state]
        return clone

    def _add_state(self, chunk: bytes, length: int, transitions: dict[bytes, int]) -> int:
        self.transitions.append(transitions)
        self.chunk_into.append(chunk)
        self._length.append(length)
        self._link.append(-1)
        return len(self._length) - 1


Item = tuple[int, int]
"""(state, number of bytes read of the chunk that leads into it); all of them: the state itself."""


def _spelt(automaton: _SuffixAutomaton, budget: Budget) -> Dfa:
    """The automaton over bytes: the subset construction, needed where chunks begin alike."""
    numbers: dict[frozenset[Item], int] = {}
    order: list[frozenset[Item]] = []

    def number_of(items: frozenset[Item]) -> int:
        number = numbers.get(items)
        if number is None:
            budget.spend_states()
            number = numbers[items] = len(order)
            order.append(items)
        return number

    number_of(frozenset({(0, 0)}))
    rows: list[list[Edge]] = []
    accepting: list[bool] = []
    for items in order:  # grows while it is walked
        by_byte: dict[int, set[Item]] = {}
        is_whole = False
        for state, read in items:
            chunk = automaton.chunk_into[state]
            if read < len(chunk):
                by_byte.setdefault(chunk[read], set()).add((state, read + 1))
                continue
            is_whole = True
            for following, target in automaton.transitions[state].items():
                by_byte.setdefault(following[0], set()).add((target, 1))
        budget.spend_edges(sum(map(len, by_byte.values())))
        rows.append([(byte, byte, number_of(frozenset(by_byte[byte]))) for byte in sorted(by_byte)])
        accepting.append(is_whole)
    return trim(rows, accepting)  # all but minimal; minimising would take four times as long as the rest
