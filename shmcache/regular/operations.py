"""What can be done with regular languages: union, intersection, difference, complement, concatenation, repetition.

Owns the operations. All take and return minimal automata and run under a budget. Must never know what the symbols are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from shmcache.limits import Budget
from shmcache.regular.code_points import ANY, CodePoints
from shmcache.regular.dfa import EMPTY_LANGUAGE, EMPTY_WORD, Dfa, Edge, merge_ranges, minimise, trim
from shmcache.regular.nfa import NfaBuilder, determinise

_DEAD = -1


def _joint_ranges(first: Sequence[Edge], second: Sequence[Edge]) -> list[tuple[int, int, int, int]]:
    """(low, high, target in first, target in second) for every symbol on an edge of either; -1 where on none."""
    points = {low for low, _, _ in first} | {low for low, _, _ in second}
    points |= {high + 1 for _, high, _ in first} | {high + 1 for _, high, _ in second}
    ordered = sorted(points)
    pieces: list[tuple[int, int, int, int]] = []
    at_first = at_second = 0
    for at, low in enumerate(ordered[:-1]):
        while at_first < len(first) and first[at_first][1] < low:
            at_first += 1
        while at_second < len(second) and second[at_second][1] < low:
            at_second += 1
        here_first = first[at_first][2] if at_first < len(first) and first[at_first][0] <= low else _DEAD
        here_second = second[at_second][2] if at_second < len(second) and second[at_second][0] <= low else _DEAD
        if here_first != _DEAD or here_second != _DEAD:
            pieces.append((low, ordered[at + 1] - 1, here_first, here_second))
    return pieces


def _product(
    first: Dfa,
    second: Dfa,
    accepts: Callable[[bool, bool], bool],
    is_live: Callable[[int, int], bool],
    budget: Budget,
) -> Dfa:
    """The words of which the one automaton and the other say what ``accepts`` asks for."""
    rows, pairs = _paired(first.edges, second.edges, is_live, budget)
    accepting = [
        accepts(one != _DEAD and first.accepting[one], other != _DEAD and second.accepting[other])
        for one, other in pairs
    ]
    return minimise(trim(rows, accepting), budget)


def _paired(
    first: Sequence[Sequence[Edge]],
    second: Sequence[Sequence[Edge]],
    is_live: Callable[[int, int], bool],
    budget: Budget,
) -> tuple[list[list[Edge]], list[tuple[int, int]]]:
    """The pair construction: rows, and the states of both that each stands for, -1 where the word has left it.

    ``is_live`` says which pairs can still matter, so that the others are never made.
    """
    numbers = {(0, 0): 0}
    pairs = [(0, 0)]
    rows: list[list[Edge]] = []
    for one, other in pairs:  # grows while it is walked
        row: list[Edge] = []
        edges_one = first[one] if one != _DEAD else ()
        edges_other = second[other] if other != _DEAD else ()
        for low, high, target_one, target_other in _joint_ranges(edges_one, edges_other):
            if not is_live(target_one, target_other):
                continue
            pair = (target_one, target_other)
            number = numbers.get(pair)
            if number is None:
                number = numbers[pair] = len(pairs)
                pairs.append(pair)
                budget.spend_states()
            row.append((low, high, number))
        budget.spend_edges(len(row))
        rows.append(row)
    return rows, pairs


def intersect(first: Dfa, second: Dfa, budget: Budget) -> Dfa:
    """Words of both."""
    return _product(
        first, second, lambda one, other: one and other, lambda one, other: one != _DEAD and other != _DEAD, budget
    )


def unite(first: Dfa, second: Dfa, budget: Budget) -> Dfa:
    """Words of either."""
    return _product(first, second, lambda one, other: one or other, lambda _one, _other: True, budget)


def subtract(first: Dfa, second: Dfa, budget: Budget) -> Dfa:
    """Words of ``first`` that are not in ``second``."""
    return _product(first, second, lambda one, other: one and not other, lambda one, _other: one != _DEAD, budget)


def partition(language: Dfa, splitters: Sequence[Dfa], budget: Budget) -> dict[tuple[bool, ...], Dfa]:
    """The words of ``language`` by which of the splitters they are in; those in the first ones first, no empty parts.

    One automaton reads along all of them: the parts differ only in where it accepts.
    """
    rows: Sequence[Sequence[Edge]] = language.edges
    accepting = list(language.accepting)
    kinds: list[tuple[bool, ...]] = [()] * language.state_count
    for splitter in splitters:
        rows, pairs = _paired(rows, splitter.edges, lambda one, _other: one != _DEAD, budget)
        rows = [merge_ranges(row) for row in rows]
        accepting = [accepting[one] for one, _ in pairs]
        kinds = [(*kinds[one], other != _DEAD and splitter.accepting[other]) for one, other in pairs]
    found = {kind for kind, accepts in zip(kinds, accepting, strict=True) if accepts}
    return {
        kind: minimise(
            trim(rows, [accepts and kind == one for one, accepts in zip(kinds, accepting, strict=True)]),
            budget,
        )
        for kind in sorted(found, reverse=True)
    }


def complement(dfa: Dfa, alphabet: CodePoints, budget: Budget) -> Dfa:
    """Words over ``alphabet`` that are not in the language."""
    return subtract(everything(alphabet), dfa, budget)


def concatenate(first: Dfa, second: Dfa, budget: Budget) -> Dfa:
    """A word of ``first`` followed by a word of ``second``."""
    nfa = NfaBuilder(budget)
    start, middle, end = nfa.add_state(), nfa.add_state(), nfa.add_state()
    nfa.add_dfa(first, start, middle)
    nfa.add_dfa(second, middle, end)
    return determinise(nfa, start, {end}, budget)


def repeat(dfa: Dfa, minimum: int, maximum: int | None, budget: Budget) -> Dfa:
    """Between ``minimum`` and ``maximum`` words, one after the other; None means any number."""
    if maximum is not None and maximum < minimum:
        return EMPTY_LANGUAGE
    nfa = NfaBuilder(budget)
    start = nfa.add_state()
    end = nfa.add_state()
    here = start
    for _ in range(minimum):
        after = nfa.add_state()
        nfa.add_dfa(dfa, here, after)
        here = after
    if maximum is None:
        loop = nfa.add_state()
        nfa.add_epsilon(here, loop)
        nfa.add_dfa(dfa, loop, loop)
        nfa.add_epsilon(loop, end)
        return determinise(nfa, start, {end}, budget)
    for _ in range(maximum - minimum):
        nfa.add_epsilon(here, end)
        after = nfa.add_state()
        nfa.add_dfa(dfa, here, after)
        here = after
    nfa.add_epsilon(here, end)
    return determinise(nfa, start, {end}, budget)


def everything(alphabet: CodePoints) -> Dfa:
    """All words over the alphabet."""
    return Dfa(edges=(tuple((low, high, 0) for low, high in alphabet.ranges),), accepting=(True,))


def characters(code_points: CodePoints) -> Dfa:
    """All words of one symbol of the set."""
    if not code_points:
        return EMPTY_LANGUAGE
    return Dfa(edges=(tuple((low, high, 1) for low, high in code_points.ranges), ()), accepting=(False, True))


def literal(text: str) -> Dfa:
    """The one word ``text``, over code points."""
    if not text:
        return EMPTY_WORD
    codes = [ord(character) for character in text]
    edges = tuple(((code, code, at + 1),) for at, code in enumerate(codes))
    return Dfa(edges=(*edges, ()), accepting=(False,) * len(codes) + (True,))


def length_between(minimum: int, maximum: int | None, budget: Budget) -> Dfa:
    """All texts of at least ``minimum`` and at most ``maximum`` code points (None: no upper bound)."""
    if maximum is not None and maximum < minimum:
        return EMPTY_LANGUAGE
    last = minimum if maximum is None else maximum
    budget.spend_states(last + 1)
    rows = [tuple((low, high, count + 1) for low, high in ANY.ranges) for count in range(last)]
    rows.append(tuple((low, high, last) for low, high in ANY.ranges) if maximum is None else ())
    return Dfa(edges=tuple(rows), accepting=tuple(count >= minimum for count in range(last + 1)))


def words(texts: Iterable[str], budget: Budget) -> Dfa:
    """Exactly these texts.

    Minimal from the start (Daciuk et al. 2000): the words come in order, so what lies behind the last one's beginning
    is complete when the next word leaves it, and equal ends are joined then.
    """
    rows: list[list[Edge]] = [[]]  # state 0 is kept for the root, which is complete last
    accepting = [False]
    known: dict[tuple[bool, tuple[tuple[int, int], ...]], int] = {}
    # The nodes along the last word, from the root: (character that leads there, is a word itself, children so far).
    path: list[tuple[int, bool, list[tuple[int, int]]]] = [(0, False, [])]

    def complete_to(depth: int) -> None:
        while len(path) > depth:
            code, is_word, children = path.pop()
            key = (is_word, tuple(children))
            state = known.get(key)
            if state is None:
                budget.spend_states()
                budget.spend_edges(len(children))
                state = known[key] = len(rows)
                rows.append([(symbol, symbol, target) for symbol, target in children])
                accepting.append(is_word)
            path[-1][2].append((code, state))

    previous = ""
    for text in sorted(set(texts)):
        common = 0
        for one, other in zip(text, previous, strict=False):
            if one != other:
                break
            common += 1
        complete_to(common + 1)
        budget.spend_edges(len(text) - common)
        path.extend((ord(character), False, []) for character in text[common:])
        code, _, children = path[-1]
        path[-1] = (code, True, children)
        previous = text
    complete_to(1)
    _, accepting[0], children = path[0]
    rows[0] = [(symbol, symbol, target) for symbol, target in children]
    return trim(rows, accepting)
