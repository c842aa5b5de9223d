"""Free text: any text in which certain strings do not occur, and what happens where they do.

Owns the automata over bytes that search a text for many strings at once. Must never know what follows a trigger.

The strings are found by the automaton of Aho and Corasick (1975), built over the bytes of their UTF-8 with every
transition resolved. Its states are the trie of the strings and, where no string has begun, the states of a reader of
UTF-8; a character never begins inside another, so a string occurs in the bytes exactly where it occurs in the text.
The number of states is linear in the sum of the strings' lengths.

*Excluded* strings end everything: no text has one. *Triggers* end the free text. A text leads up to a trigger when
it ends with it and no other trigger begins earlier: of two that end together the longer counts, and where a shorter
one is met inside a longer one, the text may stop with the shorter or go on, but only to the end of the longer.
No trigger is ever passed over: a text in which one has been spelt is no free text any more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from shmcache.limits import Budget
from shmcache.regular.dfa import Dfa, Edge, merge_ranges, minimise, trim

_CONTINUATION_LOW, _CONTINUATION_HIGH = 0x80, 0xBF

_UTF8: tuple[tuple[Edge, ...], ...] = (
    (
        (0x00, 0x7F, 0),
        (0xC2, 0xDF, 1),
        (0xE0, 0xE0, 4),
        (0xE1, 0xEC, 2),
        (0xED, 0xED, 5),
        (0xEE, 0xEF, 2),
        (0xF0, 0xF0, 6),
        (0xF1, 0xF3, 3),
        (0xF4, 0xF4, 7),
    ),
    ((0x80, 0xBF, 0),),
    ((0x80, 0xBF, 1),),
    ((0x80, 0xBF, 2),),
    ((0xA0, 0xBF, 1),),
    ((0x80, 0x9F, 1),),
    ((0x90, 0xBF, 2),),
    ((0x80, 0x8F, 2),),
)
"""A reader of UTF-8 (RFC 3629): state 0 stands between characters; the others say what a character still wants."""

_ROOT = 0
_NONE = -1


@dataclass(frozen=True, slots=True)
class Scan:
    """A deterministic automaton over bytes that reads free text; state 0 is the start.

    ``rows[s]`` are sorted, disjoint edges. Free text may end in ``s`` if ``is_free[s]``: no trigger has been met and no
    character is incomplete. ``met[s]`` is the number of the trigger to which the text up to ``s`` leads, or -1.
    """

    rows: list[list[Edge]]
    is_free: list[bool]
    met: list[int]


def free_text(excludes: tuple[str, ...], budget: Budget, *, characters_max: int | None = None) -> Dfa:
    """The UTF-8 of all texts in which none of ``excludes`` occurs, of at most ``characters_max`` code points.

    Minimal without a bound. Raises :class:`LimitError`; with a bound the automaton has a part for each count.
    """
    scan = scan_text((), excludes, budget)
    whole = minimise(trim(scan.rows, scan.is_free), budget)
    return whole if characters_max is None else _bounded(whole, characters_max, budget)


def text_to_trigger(triggers: tuple[str, ...], excludes: tuple[str, ...], budget: Budget) -> Dfa:
    """The UTF-8 of all texts that lead up to one of ``triggers``, it included, and have none of ``excludes``. Minimal.

    The triggers are not empty. Raises :class:`LimitError`.
    """
    scan = scan_text(triggers, excludes, budget)
    return minimise(trim(scan.rows, [number >= 0 for number in scan.met]), budget)


def scan_text(triggers: tuple[str, ...], excludes: tuple[str, ...], budget: Budget) -> Scan:
    """The automaton that reads free text up to any of ``triggers``, which are different and not empty.

    Without states that are not reached. An empty excluded string occurs in every text, so nothing is then read.
    """
    trie = _Trie(triggers, excludes, budget)
    rows: list[list[Edge]] = []
    is_free: list[bool] = []
    met: list[int] = []
    numbers: dict[int, int] = {}
    order: list[int] = []

    def number_of(state: int) -> int:
        number = numbers.get(state)
        if number is None:
            number = numbers[state] = len(order)
            order.append(state)
        return number

    number_of(_ROOT)
    for state in order:  # grows while it is walked
        row = [(low, high, number_of(target)) for low, high, target in trie.edges(state)]
        rows.append(row)  # paid for by the trie, whose nodes and jumps these are
        is_free.append(trie.is_free(state))
        met.append(trie.trigger_at(state))
    return Scan(rows, is_free, met)


class _Trie:
    """All strings as a trie of bytes. A state is a node (from 0), or -u where no string has begun inside a character
    that the reader of UTF-8 has in its state u.

    Of every node are kept: its children; ``jumps``, where each byte leads that does not lead to the root; the longest
    trigger that its string ends with; and how many of its last bytes make up the trigger that begins first in it.
    """

    def __init__(self, triggers: tuple[str, ...], excludes: tuple[str, ...], budget: Budget) -> None:
        self.budget = budget
        self.children: list[dict[int, int]] = [{}]
        self.depth = [0]
        self.reader = [0]
        self.trigger = [_NONE]
        self.is_dead = [False]
        self.lengths = [len(trigger.encode()) for trigger in triggers]
        for number, trigger in enumerate(triggers):
            self.trigger[self._add(trigger)] = number
        for excluded in excludes:
            self.is_dead[self._add(excluded)] = True
        self.met_bytes = [0] * len(self.depth)
        self.jumps: list[dict[int, int]] = [{} for _ in self.depth]
        self._link()

    def _add(self, string: str) -> int:
        node = _ROOT
        for byte in string.encode():
            child = self.children[node].get(byte)
            if child is None:
                self.budget.spend_states()
                child = self.children[node][byte] = len(self.depth)
                self.children.append({})
                self.depth.append(self.depth[node] + 1)
                self.reader.append(_read(self.reader[node], byte))
                self.trigger.append(_NONE)
                self.is_dead.append(False)
            node = child
        return node

    def _link(self) -> None:
        """Resolves the transitions, breadth first: ``fallback`` is the longest proper suffix that is a node."""
        fallback = [_ROOT] * len(self.depth)
        order = [_ROOT]
        for node in order:  # grows while it is walked
            behind = fallback[node]
            if node == _ROOT:
                self.jumps[node] = dict(self.children[node])
            else:
                # Inside a character nothing begins: the root's jumps are those of whole characters.
                inherited = self.jumps[behind] if behind != _ROOT or self.reader[node] == 0 else {}
                self.jumps[node] = {**inherited, **self.children[node]}
                self._inherit(node, behind)
            self.budget.spend_edges(len(self.jumps[node]))
            for byte, child in self.children[node].items():
                fallback[child] = self.jumps[behind].get(byte, _ROOT) if node != _ROOT else _ROOT
                self.met_bytes[child] = self.met_bytes[node] + 1 if self.met_bytes[node] else 0
                order.append(child)

    def _inherit(self, node: int, behind: int) -> None:
        self.is_dead[node] |= self.is_dead[behind]
        if self.trigger[node] == _NONE:
            self.trigger[node] = self.trigger[behind]
        if self.trigger[node] != _NONE:
            self.met_bytes[node] = max(self.met_bytes[node], self.lengths[self.trigger[node]])

    def is_free(self, state: int) -> bool:
        """Whether free text may end here."""
        return state >= 0 and not (self.is_dead[state] or self.met_bytes[state] or self.reader[state])

    def trigger_at(self, state: int) -> int:
        """The trigger to which the text so far leads, or -1: not where one has begun before it."""
        if state <= 0 or self.is_dead[state]:
            return _NONE
        trigger = self.trigger[state]
        return trigger if trigger != _NONE and self.lengths[trigger] == self.met_bytes[state] else _NONE

    def edges(self, state: int) -> Iterator[Edge]:
        """Where each byte leads from ``state``, sorted."""
        reader = -state if state < 0 else self.reader[state]
        jumps = self.jumps[state] if state >= 0 else {}
        if state >= 0 and self.is_dead[state]:
            return
        if state >= 0 and self.met_bytes[state]:
            # Only on to the end of a longer trigger, which has begun where the one that was met has, or earlier.
            depth_min = self.met_bytes[state] + 1
            for byte, target in sorted(jumps.items()):
                if self.depth[target] >= depth_min and not self.is_dead[target]:
                    yield byte, byte, target
            return
        yield from merge_ranges(_overlaid(_UTF8[reader], jumps, self.is_dead))


def _read(reader: int, byte: int) -> int:
    """The state of the reader of UTF-8 after ``byte``."""
    return next(target for low, high, target in _UTF8[reader] if low <= byte <= high)


def _overlaid(ranges: tuple[Edge, ...], jumps: dict[int, int], is_dead: list[bool]) -> Iterator[Edge]:
    """The reader's edges, but for the bytes that jump to a node; those that lead to a dead one are left out."""
    jumping = iter(sorted(jumps.items()))
    byte, node = next(jumping, (256, _ROOT))
    for low, high, reader in ranges:
        here = low
        while byte <= high:
            if here < byte:
                yield here, byte - 1, -reader
            if not is_dead[node]:
                yield byte, byte, node
            here = byte + 1
            byte, node = next(jumping, (256, _ROOT))
        if here <= high:
            yield here, high, -reader


def _bounded(text: Dfa, characters_max: int, budget: Budget) -> Dfa:
    """The words of ``text`` with at most so many characters: its states once for each count.

    Not made minimal, which would take several times as long: only among the last few counts are there equal states.
    """
    width = text.state_count
    budget.spend_states(width * (characters_max + 1))
    begins = [[edge for edge in row if not _is_continuation(edge)] for row in text.edges]
    continuations = [[edge for edge in row if _is_continuation(edge)] for row in text.edges]
    rows: list[list[Edge]] = []
    for count in range(characters_max + 1):
        here, after = count * width, (count + 1) * width
        for begin, continuation in zip(begins, continuations, strict=True):
            row = [(low, high, here + target) for low, high, target in continuation]
            if count < characters_max:
                row += [(low, high, after + target) for low, high, target in begin]
            budget.spend_edges(len(row))
            rows.append(row)
    return trim(rows, list(text.accepting) * (characters_max + 1))


def _is_continuation(edge: Edge) -> bool:
    return _CONTINUATION_LOW <= edge[0] <= _CONTINUATION_HIGH
