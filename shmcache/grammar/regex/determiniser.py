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
from itertools import chain

from shmcache.grammar.regex.alphabet import Alphabet
from shmcache.grammar.regex.nfa import Condition, ConditionalNfa
from shmcache.grammar.regex.syntax import END_OF_TEXT, Ahead, Behind, Lookahead, Node
from shmcache.grammar.regex.threads import Move, Point, covers, join, uncovered
from shmcache.limits import Budget
from shmcache.regular.code_points import ANY, CodePoints, Range
from shmcache.regular.dfa import EMPTY_LANGUAGE, EMPTY_WORD, Dfa, Edge, minimise, trim
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
    """One subset construction. Threads have numbers; what a thread becomes after a letter is computed once.

    Sets of letters are bits of an integer: most edges of a pattern are for many letters that lead to the same threads.
    """

    def __init__(self, nfa: ConditionalNfa, assertions: _Assertions, budget: Budget) -> None:
        self._nfa = nfa
        self._assertions = assertions
        self._budget = budget
        self._alphabet = Alphabet(self._sets())
        self._context_after = [assertions.context_after(sample) for sample in self._alphabet.samples]
        self._letters_by_context: dict[int, int] = {}
        for letter, context in enumerate(self._context_after):
            self._letters_by_context[context] = self._letters_by_context.get(context, 0) | 1 << letter
        self._ranges: dict[int, tuple[Range, ...]] = {}
        # A thread that has met the end of the text does not go on, so of those that do none has that obligation.
        self._looks_ahead = any(not isinstance(one, Behind) and one != END_OF_TEXT for one in nfa.conditions())
        self._threads: list[Thread] = []
        self._thread_numbers: dict[Thread, int] = {}
        self._points: list[Point] = []  # by thread
        self._groups: list[int] = []  # by thread: of those at its place with its obligations; -1 where it is alone
        self._group_numbers: dict[tuple[int, Obligations], int] = {}
        self._accepting: set[int] = set()  # threads where the text may end
        self._moves: dict[int, list[Move]] = {}
        self._closures: dict[tuple[int, int], frozenset[int]] = {}
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
        subsets = [self._subset(self._closure(self._nfa.START, context))]
        numbers = {subsets[0]: 0}
        known: dict[frozenset[int], int] = {}  # by threads, those that do not matter included
        rows: list[list[Edge]] = []
        for subset in subsets:  # grows while it is walked
            letters_to: dict[int, int] = {}
            for letters, threads in self._moves_of(subset[0]):
                number = known.get(threads)
                if number is None:
                    successor = self._subset(threads)
                    number = numbers.get(successor)
                    if number is None:
                        self._budget.spend_states()
                        number = numbers[successor] = len(subsets)
                        subsets.append(successor)
                    known[threads] = number
                letters_to[number] = letters_to.get(number, 0) | letters
            row = [
                (low, high, number) for number, letters in letters_to.items() for low, high in self._spelled(letters)
            ]
            row.sort()
            rows.append(row)
            self._budget.spend_edges(len(subset[0]) + len(row))
        return minimise(trim(rows, [accepts for _, accepts in subsets]), self._budget)

    def _spelled(self, letters: int) -> tuple[Range, ...]:
        """The characters of a set of letters."""
        known = self._ranges.get(letters)
        if known is None:
            listed = (ranges for letter, ranges in enumerate(self._alphabet.ranges) if letters >> letter & 1)
            known = self._ranges[letters] = CodePoints.from_ranges(chain.from_iterable(listed)).ranges
        return known

    def _moves_of(self, threads: frozenset[int]) -> list[Move]:
        """What some threads become together: sets of letters that have none in common."""
        if len(threads) == 1:
            (thread,) = threads
            return self._moves_after(thread)
        joined: list[Move] = []
        for thread in threads:
            for letters, targets in self._moves_after(thread):
                join(joined, letters, targets)
        return joined

    def _subset(self, threads: frozenset[int]) -> tuple[frozenset[int], bool]:
        """The threads that matter, and whether the text may end.

        Threads that cannot go on matter for the latter only, and those not at all that count only when another counts.
        """
        if self._match_number in threads:
            return frozenset((self._match_number,)), True
        self._budget.check_time()  # the threads may be many
        known = self._moves
        lasting = [thread for thread in threads if (known[thread] if thread in known else self._moves_after(thread))]
        self._budget.spend_edges(len(threads))
        if len(lasting) > 1:
            lasting = self._needed(lasting)
        return frozenset(lasting), not self._accepting.isdisjoint(threads)

    def _thread_number(self, thread: Thread) -> int:
        number = self._thread_numbers.get(thread)
        if number is None:
            self._budget.spend_edges()
            number = self._thread_numbers[thread] = len(self._threads)
            self._threads.append(thread)
            state, obligations = thread
            path, copies = self._nfa.place[state]
            self._points.append((copies, number))
            is_alone = not copies and not self._looks_ahead
            group = -1 if is_alone else self._group_numbers.setdefault((path, obligations), len(self._group_numbers))
            self._groups.append(group)
            if state == self._nfa.ACCEPT and self._assertions.accept_end(obligations):
                self._accepting.add(number)
        return number

    def _moves_after(self, thread: int) -> list[Move]:
        """What the thread becomes."""
        known = self._moves.get(thread)
        if known is None:
            state, obligations = self._threads[thread]
            known = []
            for code_points, target in self._nfa.reading[state]:
                letters = self._alphabet.letters(code_points)
                self._budget.spend_edges(1 + letters.bit_count() * len(obligations))
                for context, letters_before in self._letters_by_context.items():
                    closure = self._closure(target, context)
                    if closure and letters & letters_before:
                        for some, left in self._left(obligations, letters & letters_before):
                            join(known, some, self._obliged(closure, left))
            self._moves[thread] = known
        return known

    def _obliged(self, threads: frozenset[int], more: Obligations) -> frozenset[int]:
        """The threads with further obligations."""
        if not more:
            return threads
        listed = (self._threads[thread] for thread in threads)
        return frozenset([self._thread_number((state, obligations | more)) for state, obligations in listed])

    def _left(self, obligations: Obligations, letters: int) -> list[tuple[int, Obligations]]:
        """Sets of the letters, and what is still to be fulfilled behind each; not those where something cannot be."""
        if not obligations:
            return [(letters, obligations)]
        by_left: dict[Obligations, int] = {}
        for letter, sample in enumerate(self._alphabet.samples):
            if letters >> letter & 1:
                left = self._assertions.advance(obligations, sample)
                if left is not None:
                    by_left[left] = by_left.get(left, 0) | 1 << letter
        return [(some, left) for left, some in by_left.items()]

    def _closure(self, state: int, context: int) -> frozenset[int]:
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
            lasting = [self._thread_number(thread) for thread in seen if thread[0] in self._nfa.lasting]
            known = self._closures[(state, context)] = frozenset(self._needed(lasting))
        return known

    def _needed(self, threads: list[int]) -> list[int]:
        """The threads without those that count only when another one counts too.

        That other one is at the same place of the pattern, in no later copies of what is repeated there, and has no
        obligations besides.
        """
        kept: list[int] = []
        by_group: dict[int, list[Point]] = {}
        for thread in threads:
            group = self._groups[thread]
            if group < 0:
                kept.append(thread)
            else:
                by_group.setdefault(group, []).append(self._points[thread])
        for group, points in by_group.items():
            if len(points) > 1:
                by_group[group] = uncovered(points, self._budget)
        if self._looks_ahead and len(by_group) > 1:
            self._drop_obliged(by_group)
        return kept + [thread for points in by_group.values() for _, thread in points]

    def _drop_obliged(self, by_group: dict[int, list[Point]]) -> None:
        """Drops threads that others at the same place cover, which have fewer obligations."""
        by_path: dict[int, list[tuple[Obligations, int]]] = {}
        for group, ((_, thread), *_) in by_group.items():
            state, obligations = self._threads[thread]
            by_path.setdefault(self._nfa.place[state][0], []).append((obligations, group))
        for listed in by_path.values():
            for more, group in listed:
                self._budget.spend_edges(len(listed))
                for less, other in listed:
                    if less < more:
                        rivals, points = by_group[other], by_group[group]
                        self._budget.spend_edges(len(rivals) * len(points))
                        by_group[group] = [one for one in points if not any(covers(rival, one) for rival in rivals)]

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
