"""Free text in which what follows certain strings, or tokens, is prescribed.

Owns the two forms of dispatch, on strings and on whole tokens, as expressions. Must never know a syntax in which they
are written, nor a vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from shmcache.grammar.free_text import Scan, free_text, scan_text
from shmcache.grammar.ir import EMPTY, Choice, Expression, Graph, Regular, Tokens
from shmcache.limits import Budget
from shmcache.regular.dfa import Dfa


def dispatch(
    rules: Iterable[tuple[str, Expression]], *, is_loop: bool, excludes: Sequence[str], budget: Budget
) -> Expression:
    """Free text; where it has come to a trigger, the expression of that rule must follow.

    ``rules`` are (trigger, expression); the same trigger twice offers a choice. Behind the expression free text goes on
    if ``is_loop``; else the whole ends there. It may also end wherever free text may, which is in the midst of a
    trigger too. No string of ``excludes`` occurs in a stretch of free text, the trigger that ends it included; what
    expressions spell is theirs alone. ``free_text`` says what holds for triggers inside each other.

    Triggers and excluded strings are not empty. Linear in their lengths; raises :class:`LimitError`.
    """
    by_trigger: dict[str, list[Expression]] = {}
    for trigger, expression in rules:
        by_trigger.setdefault(trigger, []).append(expression)
    if not by_trigger:
        return Regular(free_text(tuple(excludes), budget))
    scan = scan_text(tuple(by_trigger), tuple(excludes), budget)
    return _scan_graph(scan, [_choice(options) for options in by_trigger.values()], is_loop)


def token_dispatch(
    rules: Iterable[tuple[int | str, Expression]], *, is_loop: bool, exclude_tokens: Sequence[int | str]
) -> Expression:
    """Any tokens; behind one that is a trigger the expression of its rule must follow.

    ``rules`` are (token, expression), ``exclude_tokens`` the tokens that do not occur among the free ones; a token is
    an id, or a text that stands for every token with its bytes. Otherwise as :func:`dispatch`.
    """
    by_token: dict[int | str, list[Expression]] = {}
    for token, expression in rules:
        by_token.setdefault(token, []).append(expression)
    excluded = dict.fromkeys(exclude_tokens)
    triggers = [token for token in by_token if token not in excluded]
    free = Tokens(tuple({**by_token, **excluded}), is_excluded=True)
    # The states: 0 is free, 1 is the end, the others stand behind a trigger.
    edges: list[tuple[int, Expression, int]] = [(0, free, 0), (0, EMPTY, 1)]
    for state, token in enumerate(triggers, 2):
        edges.append((0, Tokens((token,)), state))
        edges.append((state, _choice(by_token[token]), 0 if is_loop else 1))
    return Graph(len(triggers) + 2, tuple(edges), 1)


def _scan_graph(scan: Scan, expressions: list[Expression], is_loop: bool) -> Graph:
    """The automaton as a graph: out of each state where a trigger is met leads its expression as well."""
    state_count = len(scan.rows)
    end = state_count
    steps: dict[tuple[tuple[int, int], ...], Regular] = {}
    edges: list[tuple[int, Expression, int]] = []
    for state, row in enumerate(scan.rows):
        by_target: dict[int, list[tuple[int, int]]] = {}
        for low, high, target in row:
            by_target.setdefault(target, []).append((low, high))
        for target, ranges in by_target.items():
            label = tuple(ranges)
            step = steps.get(label)
            if step is None:
                step = steps[label] = _one_byte(label)
            edges.append((state, step, target))
        if scan.is_free[state]:
            edges.append((state, EMPTY, end))
        if scan.met[state] >= 0:
            edges.append((state, expressions[scan.met[state]], 0 if is_loop else end))
    return Graph(state_count + 1, tuple(edges), end)


def _one_byte(ranges: tuple[tuple[int, int], ...]) -> Regular:
    return Regular(Dfa(edges=(tuple((low, high, 1) for low, high in ranges), ()), accepting=(False, True)))


def _choice(options: list[Expression]) -> Expression:
    return options[0] if len(options) == 1 else Choice(tuple(options))
