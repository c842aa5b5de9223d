"""Slow, obvious twins of ``shmcache.regular``: automata as sets of words, and two other ways to the minimal automaton.

Owns the definitions. Must never share code with the automata it is compared with, the value itself excepted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, product
from random import Random

from shmcache.limits import Budget
from shmcache.regular.dfa import Dfa
from shmcache.regular.nfa import NfaBuilder


@dataclass
class ReferenceNfa:
    """A non-deterministic automaton over single symbols."""

    state_count: int
    edges: set[tuple[int, int, int]] = field(default_factory=set)
    """(source, symbol, target)."""
    epsilons: set[tuple[int, int]] = field(default_factory=set)
    starts: set[int] = field(default_factory=set)
    accepting: set[int] = field(default_factory=set)

    def closure(self, states: Iterable[int]) -> frozenset[int]:
        """The states that are reached without a symbol."""
        seen = set(states)
        while True:
            more = {target for source, target in self.epsilons if source in seen} - seen
            if not more:
                return frozenset(seen)
            seen |= more

    def step(self, states: frozenset[int], symbol: int) -> frozenset[int]:
        """The states behind one symbol."""
        return self.closure(target for source, read, target in self.edges if source in states and read == symbol)

    def accepts(self, word: Iterable[int]) -> bool:
        """Whether the word leads from a start to an accepting state."""
        states = self.closure(self.starts)
        for symbol in word:
            states = self.step(states, symbol)
        return bool(states & self.accepting)

    def reversed(self) -> ReferenceNfa:
        """The automaton of the words read backwards."""
        return ReferenceNfa(
            self.state_count,
            {(target, symbol, source) for source, symbol, target in self.edges},
            {(target, source) for source, target in self.epsilons},
            set(self.accepting),
            set(self.starts),
        )

    def subsets(self, alphabet: Sequence[int]) -> ReferenceNfa:
        """The subset construction: deterministic, complete, every state reachable."""
        first = self.closure(self.starts)
        numbers = {first: 0}
        pending = [first]
        result = ReferenceNfa(1, starts={0})
        for states in pending:  # grows while it is walked
            if states & self.accepting:
                result.accepting.add(numbers[states])
            for symbol in alphabet:
                after = self.step(states, symbol)
                if after not in numbers:
                    numbers[after] = len(numbers)
                    pending.append(after)
                result.edges.add((numbers[states], symbol, numbers[after]))
        result.state_count = len(numbers)
        return result


def minimal_state_count(nfa: ReferenceNfa, alphabet: Sequence[int]) -> int:
    """States of the minimal automaton without a dead state, at least 1; by Brzozowski's double reversal (1962)."""
    complete = nfa.reversed().subsets(alphabet).reversed().subsets(alphabet)
    alive = set(complete.accepting)
    while True:
        more = {source for source, _, target in complete.edges if target in alive} - alive
        if not more:
            return max(1, len(alive))
        alive |= more


def moore_state_count(dfa: Dfa) -> int:
    """States of the minimal automaton of a trimmed one; by rounds of refinement over all symbols (Moore 1956)."""
    symbols = sorted({low for row in dfa.edges for low, _, _ in row})
    symbols += sorted({high for row in dfa.edges for _, high, _ in row} - set(symbols))
    block = [int(accepts) for accepts in dfa.accepting]
    while True:
        names: dict[tuple[int, ...], int] = {}
        finer = []
        for state in range(dfa.state_count):
            targets = [dfa.target(state, symbol) for symbol in symbols]
            signature = (block[state], *(block[target] if target >= 0 else -1 for target in targets))
            finer.append(names.setdefault(signature, len(names)))
        if len(names) == len(set(block)):
            return len(names)
        block = finer


def random_nfa(rng: Random, alphabet: Sequence[int], states_max: int = 6) -> ReferenceNfa:
    """A few states, edges and epsilons; often with a language that is neither empty nor everything."""
    count = rng.randint(1, states_max)
    nfa = ReferenceNfa(count, starts={0})
    for _ in range(rng.randint(0, 2 * count)):
        nfa.edges.add((rng.randrange(count), rng.choice(alphabet), rng.randrange(count)))
    for _ in range(rng.randint(0, count // 2)):
        nfa.epsilons.add((rng.randrange(count), rng.randrange(count)))
    nfa.accepting = {state for state in range(count) if rng.random() < 0.4}
    return nfa


def as_builder(nfa: ReferenceNfa, budget: Budget) -> NfaBuilder:
    """The same automaton for :func:`shmcache.regular.nfa.determinise`."""
    builder = NfaBuilder(budget)
    for _ in range(nfa.state_count):
        builder.add_state()
    for source, symbol, target in nfa.edges:
        builder.add_edge(source, symbol, symbol, target)
    for source, target in nfa.epsilons:
        builder.add_epsilon(source, target)
    return builder


def words(alphabet: Sequence[int], length_max: int) -> Iterable[tuple[int, ...]]:
    """Every word of at most that length, short ones first."""
    for length in range(length_max + 1):
        yield from product(alphabet, repeat=length)


def language(dfa: Dfa, alphabet: Sequence[int], length_max: int) -> set[tuple[int, ...]]:
    """The accepted words of at most that length, each symbol looked for by going through the edges."""
    found = set()
    for word in words(alphabet, length_max):
        state = 0
        for symbol in word:
            targets = [target for low, high, target in dfa.edges[state] if low <= symbol <= high]
            assert len(targets) <= 1, "not deterministic"
            state = targets[0] if targets else -1
            if state < 0:
                break
        if state >= 0 and dfa.accepting[state]:
            found.add(word)
    return found


def check_dfa(dfa: Dfa) -> None:
    """What every automaton promises: edges sorted, disjoint and joined; no dead, unreachable or mergeable state."""
    assert len(dfa.edges) == len(dfa.accepting) >= 1
    for row in dfa.edges:
        for (_, high, target), (low, _, following) in pairwise(row):
            assert high < low
            assert high + 1 < low or target != following, "adjacent ranges of one target are not joined"
        for low, high, target in row:
            assert low <= high
            assert 0 <= target < dfa.state_count
    reached = {0}
    pending = [0]
    while pending:
        for _, _, target in dfa.edges[pending.pop()]:
            if target not in reached:
                reached.add(target)
                pending.append(target)
    assert len(reached) == dfa.state_count
    alive = {state for state in range(dfa.state_count) if dfa.accepting[state]}
    while True:
        more = {s for s, row in enumerate(dfa.edges) if any(target in alive for _, _, target in row)} - alive
        if not more:
            break
        alive |= more
    assert len(alive) == dfa.state_count or dfa == Dfa(((),), (False,))
    assert moore_state_count(dfa) == dfa.state_count, "not minimal"
