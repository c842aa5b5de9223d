"""A deterministic finite automaton over integer symbols, its transitions held as ranges.

Owns the value, its trimming and its minimisation. Must never know what the symbols stand for: they are code points in a
text automaton, bytes in a byte automaton, and bytes or rule calls in a rule automaton.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from shmcache.limits import Budget

Edge = tuple[int, int, int]
"""(low, high, target): every symbol in low..high leads to state ``target``."""


@dataclass(frozen=True, slots=True)
class Dfa:
    """State 0 is the start. ``edges[s]`` is sorted and disjoint; a symbol on no edge is rejected.

    Every state can reach an accepting one, the start of the empty language excepted, which has no edges.
    """

    edges: tuple[tuple[Edge, ...], ...]
    accepting: tuple[bool, ...]

    @property
    def state_count(self) -> int:
        """Number of states, at least 1."""
        return len(self.edges)

    @property
    def is_empty(self) -> bool:
        """Whether no word at all is accepted."""
        return not self.edges[0] and not self.accepting[0]

    def is_accepting(self, state: int) -> bool:
        """Whether a word may end in ``state``."""
        return self.accepting[state]

    def without_empty_word(self) -> Dfa:
        """The language less the empty word, as an automaton whose start no edge enters."""
        if not self.accepting[0] and not any(edge[2] == 0 for row in self.edges for edge in row):
            return self
        shifted = [[(low, high, target + 1) for low, high, target in row] for row in self.edges]
        return trim([shifted[0], *shifted], [False, *self.accepting])

    def target(self, state: int, symbol: int) -> int:
        """The state after ``symbol``, or -1."""
        row = self.edges[state]
        at = bisect_right(row, (symbol, 1 << 62, 0)) - 1
        if at >= 0 and row[at][0] <= symbol <= row[at][1]:
            return row[at][2]
        return -1

    def accepts(self, symbols: Iterable[int]) -> bool:
        """Whether the word is in the language."""
        state = 0
        for symbol in symbols:
            state = self.target(state, symbol)
            if state < 0:
                return False
        return self.accepting[state]


EMPTY_LANGUAGE = Dfa(edges=((),), accepting=(False,))
EMPTY_WORD = Dfa(edges=((),), accepting=(True,))


def merge_ranges(edges: Iterable[Edge]) -> tuple[Edge, ...]:
    """Sorted, disjoint edges with adjacent ranges of one target joined."""
    merged: list[Edge] = []
    previous_target = previous_high = -2
    for edge in edges:
        low, high, target = edge
        if target == previous_target and low == previous_high + 1:
            merged[-1] = (merged[-1][0], high, target)
        else:
            merged.append(edge)
            previous_target = target
        previous_high = high
    return tuple(merged)


def trim(edges: Sequence[Sequence[Edge]], accepting: Sequence[bool]) -> Dfa:
    """The automaton without states that cannot be reached or cannot accept, in breadth-first numbering."""
    sources = _sources(edges)
    alive = list(accepting)
    pending = [state for state, accepts in enumerate(accepting) if accepts]
    while pending:
        for source in sources[pending.pop()]:
            if not alive[source]:
                alive[source] = True
                pending.append(source)
    if not alive[0]:
        return EMPTY_LANGUAGE
    if not all(alive):
        edges = [[edge for edge in row if alive[edge[2]]] for row in edges]
    return breadth_first(edges, accepting)


def breadth_first(edges: Sequence[Sequence[Edge]], accepting: Sequence[bool]) -> Dfa:
    """The automaton of the states that can be reached, all of which can accept, numbered as they are met."""
    number = [-1] * len(edges)
    number[0] = 0
    order = [0]
    for state in order:  # grows while it is walked
        for _, _, target in edges[state]:
            if number[target] < 0:
                number[target] = len(order)
                order.append(target)
    return Dfa(
        edges=tuple([merge_ranges([(low, high, number[to]) for low, high, to in edges[state]]) for state in order]),
        accepting=tuple([accepting[state] for state in order]),
    )


def _sources(edges: Sequence[Sequence[Edge]]) -> list[list[int]]:
    """For each state those that an edge leads from, once for each edge."""
    sources: list[list[int]] = [[] for _ in edges]
    for state, row in enumerate(edges):
        for _, _, target in row:
            sources[target].append(state)
    return sources


def minimise(dfa: Dfa, budget: Budget) -> Dfa:
    """The smallest automaton of the same language.

    States behind which there are finitely many words are joined by their edges, ends first (Revuz 1992). The others are
    told apart by partition refinement in the manner of Paige and Tarjan (1987): of a block that splits, the largest
    part keeps the block's number, so a state is renumbered, and its predecessors looked at again, at most log2(states)
    times.
    """
    dfa, is_finite = _joined_ends(dfa)
    budget.spend_edges(dfa.state_count)
    if is_finite:
        return dfa
    edges, accepting = dfa.edges, dfa.accepting
    sources = _sources(edges)
    everywhere = [0] * len(edges)
    # Equal states go on with the same symbols, wherever those lead: that alone tells most states apart.
    alike: dict[tuple[bool, tuple[Edge, ...]], int] = {}
    block_of = [
        alike.setdefault((accept, _signature(row, everywhere)), len(alike))
        for accept, row in zip(accepting, edges, strict=True)
    ]
    members: list[set[int]] = [set() for _ in alike]
    for state, block in enumerate(block_of):
        members[block].add(state)
    dirty = set(range(len(edges)))
    while dirty:
        by_block: dict[int, list[int]] = {}
        for state in dirty:
            by_block.setdefault(block_of[state], []).append(state)
        dirty = set()
        moves: list[tuple[int, list[int]]] = []
        for block, states in by_block.items():
            if len(members[block]) > 1:
                moves.extend((block, part) for part in _split(edges, block_of, members[block], states))
        for block, part in moves:
            budget.spend_edges(len(part))
            fresh = len(members)
            members.append(set(part))
            members[block].difference_update(part)
            for state in part:
                block_of[state] = fresh
                dirty.update(sources[state])
    return _quotient(dfa, block_of)


def _joined_ends(dfa: Dfa) -> tuple[Dfa, bool]:
    """The automaton with equal ones joined of the states from which no loop is reached; whether that is all of them."""
    edges = dfa.edges
    sources = _sources(edges)
    waiting = [len(row) for row in edges]
    known: dict[tuple[bool, tuple[Edge, ...]], int] = {}
    joined = list(range(len(edges)))
    order = [state for state, count in enumerate(waiting) if not count]
    for state in order:  # grows while it is walked: a state comes when all of its targets have come
        row = merge_ranges([(low, high, joined[target]) for low, high, target in edges[state]])
        joined[state] = known.setdefault((dfa.accepting[state], row), state)
        for source in sources[state]:
            waiting[source] -= 1
            if not waiting[source]:
                order.append(source)
    if len(known) == len(order) and len(order) < len(edges):
        return dfa, False  # nothing was joined
    return _quotient(dfa, joined), len(order) == len(edges)


def _signature(row: tuple[Edge, ...], block_of: list[int]) -> tuple[Edge, ...]:
    if len(row) == 1:
        low, high, target = row[0]
        return ((low, high, block_of[target]),)
    return merge_ranges([(low, high, block_of[target]) for low, high, target in row])


def _split(
    edges: tuple[tuple[Edge, ...], ...], block_of: list[int], members: set[int], touched: list[int]
) -> list[list[int]]:
    """The parts of a block that differ from its largest part. Untouched members are known to be alike."""
    groups: dict[tuple[Edge, ...], list[int]] = {}
    for state in touched:
        groups.setdefault(_signature(edges[state], block_of), []).append(state)
    untouched_count = len(members) - len(touched)
    keep: tuple[Edge, ...] | None = None
    if untouched_count:
        touched_set = set(touched)
        witness = next(state for state in members if state not in touched_set)
        alike = _signature(edges[witness], block_of)
        largest = max(groups, key=lambda signature: len(groups[signature]))
        if untouched_count + len(groups.get(alike, ())) >= len(groups[largest]) or largest == alike:
            keep = alike
        else:
            keep = largest
            groups.setdefault(alike, []).extend(state for state in members if state not in touched_set)
    else:
        keep = max(groups, key=lambda signature: len(groups[signature]))
    return [states for signature, states in groups.items() if signature != keep]


def _quotient(dfa: Dfa, block_of: list[int]) -> Dfa:
    number: dict[int, int] = {block_of[0]: 0}
    representatives = [0]
    rows: list[tuple[Edge, ...]] = []
    for state in representatives:  # grows while it is walked: breadth first
        row: list[Edge] = []
        for low, high, target in dfa.edges[state]:
            block = block_of[target]
            if block not in number:
                number[block] = len(representatives)
                representatives.append(target)
            row.append((low, high, number[block]))
        rows.append(merge_ranges(row))
    return Dfa(edges=tuple(rows), accepting=tuple(dfa.accepting[state] for state in representatives))
