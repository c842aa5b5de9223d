"""From a conditional automaton to a deterministic one: where assertions get their meaning.

Owns the subset construction over *threads*. A thread is a state of the :class:`ConditionalNfa` together with its
obligations: what the rest of the text must still fulfil for this thread to count. Must never know patterns.

* :class:`Behind` looks at one character that has been read: it holds or not when the edge is passed.
* :class:`Ahead` and :class:`Lookahead` speak of the rest of the text, so they are text automata. Passing the edge puts
  the automaton's start among the thread's obligations; each character moves them on; a thread whose obligation cannot
  be met any more ends, and at the end of the text all obligations must accept. A negative lookahead is the complement.

This is the alternating automaton of Chandra, Kozen and Stockmeyer (1981), made deterministic; it works at any place of
a pattern, within repetitions too. Without assertions it is the usual subset construction.
"""

from __future__ import annotations

from collections.abc import Iterable

from shmcache.grammar.regex.alphabet import Alphabet
from shmcache.grammar.regex.nfa import Condition, ConditionalNfa
from shmcache.grammar.regex.syntax import Ahead, Behind, Lookahead, Node
from shmcache.limits import Budget
from shmcache.regular.code_points import ANY, CodePoints
from shmcache.regular.dfa import EMPTY_LANGUAGE, EMPTY_WORD, Dfa, Edge, merge_ranges, minimise, trim
from shmcache.regular.operations import complement

Obligation = tuple[int, int]
"""(number of a text automaton, its state)."""

Obligations = frozenset[Obligation]
Thread = tuple[int, Obligations]

_NO_OBLIGATIONS: Obligations = frozenset()


def text_automaton(node: Node, budget: Budget, *, is_search: bool) -> Dfa:
    """The texts that ``node`` matches as a whole, or in which it is found if ``is_search``. Minimal."""
    nfa = ConditionalNfa(node, budget, skips_before=is_search, ignores_after=is_search)
    assertions = _Assertions(nfa, budget)
    return _Determiniser(nfa, assertions, budget).determinise(assertions.at_begin)


class _Assertions:
    """The meaning of every condition of a whole pattern, lookaheads within lookaheads included.

    A *context* is the set of ``Behind`` conditions that hold, as a bit set; it is all that is known of what was read.
    """

    def __init__(self, nfa: ConditionalNfa, budget: Budget) -> None:
        self.budget = budget
        self.automata: list[Dfa] = []
        self._met_states: list[int] = []
        self._bodies: dict[Lookahead, ConditionalNfa] = {}
        self._numbers: dict[tuple[Condition, int], int] = {}
        behinds = {condition for condition in self._all_conditions(nfa) if isinstance(condition, Behind)}
        in_order = sorted(behinds, key=lambda behind: (behind.code_points.ranges, behind.at_begin))
        self._bits = {behind: 1 << at for at, behind in enumerate(in_order)}
        self.at_begin = sum(bit for behind, bit in self._bits.items() if behind.at_begin)
        self.behind_sets = [behind.code_points for behind in in_order]
        samples = Alphabet([*self.behind_sets, ANY]).samples
        self.contexts = {self.at_begin, *(self.context_after(sample) for sample in samples)}

    def _all_conditions(self, nfa: ConditionalNfa) -> set[Condition]:
        found: set[Condition] = set()
        pending = [nfa]
        while pending:
            for condition in pending.pop().conditions():
                found.add(condition)
                if isinstance(condition, Lookahead) and condition not in self._bodies:
                    body = ConditionalNfa(condition.body, self.budget, skips_before=False, ignores_after=True)
                    self._bodies[condition] = body
                    pending.append(body)
        return found

    def context_after(self, code_point: int) -> int:
        """The context when ``code_point`` has just been read."""
        return sum(bit for behind, bit in self._bits.items() if code_point in behind.code_points)

    def holds(self, behind: Behind, context: int) -> bool:
        """Whether the condition holds in the context."""
        return bool(self._bits[behind] & context)

    def number(self, condition: Ahead | Lookahead, context: int) -> int:
        """The number of the automaton of those rests of the text that fulfil ``condition``, met in ``context``."""
        known = self._numbers.get((condition, context))
        if known is None:
            if isinstance(condition, Ahead):
                automaton = _ahead(condition)
            else:
                automaton = _Determiniser(self._bodies[condition], self, self.budget).determinise(context)
                if condition.is_negative:
                    automaton = complement(automaton, ANY, self.budget)
            known = self._numbers[(condition, context)] = len(self.automata)
            self.automata.append(automaton)
            self._met_states.append(_universal_state(automaton))
        return known

    def advance(self, obligations: Obligations, code_point: int) -> Obligations | None:
        """What is still to be fulfilled after ``code_point``; None when something cannot be any more."""
        if not obligations:
            return obligations
        left: set[Obligation] = set()
        for number, state in obligations:
            target = self.automata[number].target(state, code_point)
            if target < 0:
                return None
            if target != self._met_states[number]:
                left.add((number, target))
        return frozenset(left)

    def oblige(self, obligations: Obligations, condition: Ahead | Lookahead, context: int) -> Obligations | None:
        """The obligations and ``condition``; None when no text fulfils it."""
        number = self.number(condition, context)
        if self.automata[number].is_empty:
            return None
        return obligations if self._met_states[number] == 0 else obligations | {(number, 0)}

    def accept_end(self, obligations: Obligations) -> bool:
        """Whether the text may end here."""
        return all(self.automata[number].accepting[state] for number, state in obligations)


def _ahead(condition: Ahead) -> Dfa:
    if not condition.code_points:
        return EMPTY_WORD if condition.at_end else EMPTY_LANGUAGE
    label = tuple((low, high, 1) for low, high in condition.code_points.ranges)
    anything = tuple((low, high, 1) for low, high in ANY.ranges)
    return Dfa(edges=(label, anything), accepting=(condition.at_end, True))


def _universal_state(automaton: Dfa) -> int:
    """The state of a minimal automaton from which every text is accepted, or -1."""
    for state, edges in enumerate(automaton.edges):
        if automaton.accepting[state] and edges == tuple((low, high, state) for low, high in ANY.ranges):
            return state
    return -1


class _Determiniser:
    """One subset construction. Threads have numbers; what a thread becomes after a letter is computed once."""

    def __init__(self, nfa: ConditionalNfa, assertions: _Assertions, budget: Budget) -> None:
        self._nfa = nfa
        self._assertions = assertions
        self._budget = budget
        self._alphabet = Alphabet(self._sets())
        self._letters = [
            [(letter, target) for code_points, target in edges for letter in self._alphabet.letters(code_points)]
            for edges in nfa.reading
        ]
        self._context_after = [assertions.context_after(sample) for sample in self._alphabet.samples]
        self._threads: list[Thread] = []
        self._thread_numbers: dict[Thread, int] = {}
        self._steps: dict[int, dict[int, frozenset[int]]] = {}
        self._closures: dict[tuple[int, int], list[Thread]] = {}
        self._match_number = self._thread_number((nfa.ACCEPT, _NO_OBLIGATIONS)) if nfa.reading[nfa.ACCEPT] else -1

    def _sets(self) -> Iterable[CodePoints]:
        """Every set of characters that may tell two texts apart."""
        yield from self._assertions.behind_sets
        for edges in self._nfa.reading:
            yield from (code_points for code_points, _ in edges)
        for condition in self._nfa.conditions():
            if not isinstance(condition, Behind):
                for context in self._assertions.contexts:
                    yield from _labels(self._assertions.automata[self._assertions.number(condition, context)])

    def determinise(self, context: int) -> Dfa:
        """The minimal automaton of the words of the automaton when begun in ``context``."""
        first = self._subset({self._thread_number(thread) for thread in self._closure(self._nfa.START, context)})
        numbers = {first: 0}
        subsets = [first]
        rows: list[list[Edge]] = []
        for subset in subsets:  # grows while it is walked
            by_letter: dict[int, set[int]] = {}
            for thread in subset:
                for letter, targets in self._step(thread).items():
                    by_letter.setdefault(letter, set()).update(targets)
            row: list[Edge] = []
            for letter, threads in by_letter.items():
                successor = self._subset(threads)
                number = numbers.get(successor)
                if number is None:
                    self._budget.spend_states()
                    number = numbers[successor] = len(subsets)
                    subsets.append(successor)
                row.extend((low, high, number) for low, high in self._alphabet.ranges[letter])
            row.sort()
            rows.append(list(merge_ranges(row)))
            self._budget.spend_edges(len(subset) + len(row))
        return minimise(trim(rows, [self._accepts(subset) for subset in subsets]), self._budget)

    def _subset(self, threads: set[int]) -> frozenset[int]:
        """The threads that matter: not those that count only when another of them counts anyway."""
        if self._match_number in threads:
            return frozenset((self._match_number,))
        if len(threads) == 1:
            return frozenset(threads)
        kept = self._needed([self._threads[number] for number in threads])
        return frozenset(self._thread_numbers[thread] for thread in kept)

    def _accepts(self, subset: frozenset[int]) -> bool:
        threads = (self._threads[number] for number in subset)
        return any(
            state == self._nfa.ACCEPT and self._assertions.accept_end(obligations) for state, obligations in threads
        )

    def _thread_number(self, thread: Thread) -> int:
        number = self._thread_numbers.get(thread)
        if number is None:
            self._budget.spend_edges()
            number = self._thread_numbers[thread] = len(self._threads)
            self._threads.append(thread)
        return number

    def _step(self, thread: int) -> dict[int, frozenset[int]]:
        """What the thread becomes: letter to threads."""
        known = self._steps.get(thread)
        if known is None:
            state, obligations = self._threads[thread]
            after: dict[int, set[int]] = {}
            for letter, target in self._letters[state]:
                left = self._assertions.advance(obligations, self._alphabet.samples[letter])
                if left is None:
                    continue
                for successor, gained in self._closure(target, self._context_after[letter]):
                    after.setdefault(letter, set()).add(self._thread_number((successor, left | gained)))
            self._budget.spend_edges(len(self._letters[state]))
            known = self._steps[thread] = {letter: frozenset(threads) for letter, threads in after.items()}
        return known

    def _closure(self, state: int, context: int) -> list[Thread]:
        """The threads that ``state`` becomes in ``context`` without reading: those that can read on, or accept."""
        known = self._closures.get((state, context))
        if known is None:
            seen: set[Thread] = {(state, _NO_OBLIGATIONS)}
            pending = list(seen)
            while pending:
                self._budget.spend_edges()
                here, obligations = pending.pop()
                for condition, target in self._nfa.free[here]:
                    grown = self._pass(condition, obligations, context)
                    if grown is not None and (target, grown) not in seen:
                        seen.add((target, grown))
                        pending.append((target, grown))
            lasting = [thread for thread in seen if self._nfa.reading[thread[0]] or thread[0] == self._nfa.ACCEPT]
            known = self._closures[(state, context)] = self._needed(lasting)
        return known

    def _needed(self, threads: list[Thread]) -> list[Thread]:
        """The threads without those that count only when another one counts too.

        That other one is at the same place of the pattern, in no later copies of what is repeated there, and has no
        obligations besides.
        """
        by_path: dict[int, list[tuple[tuple[int, ...], Obligations, int]]] = {}
        for state, obligations in threads:
            path, copies = self._nfa.place[state]
            by_path.setdefault(path, []).append((copies, obligations, state))
        kept: list[Thread] = []
        for listed in by_path.values():
            if len(listed) > 1:
                listed.sort(key=lambda one: (sum(one[0]), len(one[1])))
            least: list[tuple[tuple[int, ...], Obligations]] = []
            for copies, obligations, state in listed:
                self._budget.spend_edges(len(least))
                if not any(_covers(one, copies) and less <= obligations for one, less in least):
                    least.append((copies, obligations))
                    kept.append((state, obligations))
        return kept

    def _pass(self, condition: Condition | None, obligations: Obligations, context: int) -> Obligations | None:
        """The obligations of a thread that has passed the condition, or None when it cannot."""
        if condition is None:
            return obligations
        if isinstance(condition, Behind):
            return obligations if self._assertions.holds(condition, context) else None
        return self._assertions.oblige(obligations, condition, context)


def _labels(automaton: Dfa) -> Iterable[CodePoints]:
    for edges in automaton.edges:
        by_target: dict[int, list[tuple[int, int]]] = {}
        for low, high, target in edges:
            by_target.setdefault(target, []).append((low, high))
        for ranges in by_target.values():
            yield CodePoints.from_ranges(ranges)


def _covers(copies: tuple[int, ...], others: tuple[int, ...]) -> bool:
    """Whether what is in these copies can do whatever is possible in the others."""
    return copies == others or all(one <= other for one, other in zip(copies, others, strict=True))
