"""From expressions to one non-deterministic automaton over bytes and rule calls.

Owns the lowering. Symbols 0..255 are bytes; symbol ``TOKENS_BASE + k`` is one token of set ``k``, taken whole; symbol
``CALL_BASE + r`` is a call of rule ``r``. Must never know what the tokens of a set are.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from shmcache.automaton.rule_graph import reachable_graph
from shmcache.grammar.ir import (
    Characters,
    Choice,
    Expression,
    Grammar,
    Graph,
    Literal,
    Metered,
    Reference,
    Regular,
    Repeat,
    Sequence,
    Tokens,
)
from shmcache.limits import TOKEN_SETS_MAX, Budget
from shmcache.regular.code_points import CodePoints
from shmcache.regular.dfa import Dfa
from shmcache.regular.encode import encode_utf8
from shmcache.regular.nfa import NfaBuilder
from shmcache.regular.operations import characters

TOKENS_BASE = 512
"""Not next to the last byte: ranges of one target are joined, and none may hold symbols of two kinds."""

CALL_BASE = 2 * TOKENS_BASE + TOKEN_SETS_MAX


@dataclass(slots=True)
class LoweredRules:
    """All rules as fragments of one automaton: rule ``r`` is what leads from ``starts[r]`` to ``finals[r]``.

    No edge enters a start or leaves a final. Rule 0 is the root.
    """

    nfa: NfaBuilder
    names: list[str]
    called_count: int
    """Rules from this one on are called by none."""
    starts: list[int] = field(default_factory=list)
    finals: list[int] = field(default_factory=list)
    token_sets: list[Tokens] = field(default_factory=list)


def lower(grammar: Grammar, inlined: frozenset[str], budget: Budget) -> LoweredRules:
    """Fragments of the root, of every rule that stays a call, and of base rules that nothing calls."""
    names = [name for name in reachable_graph(grammar) if name not in inlined]
    uncalled = sorted(grammar.base_rules.difference(names))
    lowered = LoweredRules(NfaBuilder(budget), names + uncalled, len(names))
    numbers = {name: number for number, name in enumerate(names)}
    lowering = _Lowering(lowered, grammar, numbers, budget)
    for name in lowered.names:
        start, final = lowered.nfa.add_state(), lowered.nfa.add_state()
        lowered.starts.append(start)
        lowered.finals.append(final)
        expression = grammar.rules[name]
        if isinstance(expression, Regular):
            _stand_in(lowered.nfa, expression.automaton, start, final)
        else:
            lowering.lower(expression, start, final)
    return lowered


def _stand_in(nfa: NfaBuilder, automaton: Dfa, start: int, final: int) -> None:
    """For a rule that is an automaton already: as much of it as tells whether it has an empty word, and others."""
    if automaton.accepting[0]:
        nfa.add_epsilon(start, final)
    if automaton.edges[0]:
        nfa.add_edge(start, 0, 255, final)


def _is_one_step(automaton: Dfa) -> bool:
    """Whether all words have one symbol: such automata are the edges of graphs with very many of them."""
    return automaton.accepting == (False, True) and not automaton.edges[1]


class _Lowering:
    """Thompson's construction (1968), driven by a list of work instead of recursion."""

    def __init__(self, lowered: LoweredRules, grammar: Grammar, numbers: dict[str, int], budget: Budget) -> None:
        self._nfa = lowered.nfa
        self._token_sets = lowered.token_sets
        self._set_numbers: dict[Tokens, int] = {}
        self._rules = grammar.rules
        self._numbers = numbers
        self._budget = budget
        self._encoded: dict[CodePoints, Dfa] = {}
        self._pending: list[tuple[Expression, int, int]] = []

    def lower(self, expression: Expression, source: int, target: int) -> None:
        """Adds the expression between two states, into the first and out of the second of which no edge may lead."""
        self._pending.append((expression, source, target))
        while self._pending:
            self._lower_one(*self._pending.pop())

    def _lower_one(self, expression: Expression, source: int, target: int) -> None:
        nfa = self._nfa
        match expression:
            case Literal(data):
                self._lower_literal(data, source, target)
            case Characters(code_points):
                if code_points:
                    nfa.add_dfa(self._encode(code_points), source, target)
            case Regular(automaton) if _is_one_step(automaton):
                for low, high, _ in automaton.edges[0]:
                    nfa.add_edge(source, low, high, target)
            case Regular(automaton):
                nfa.add_dfa(automaton, source, target)
            case Reference(rule):
                number = self._numbers.get(rule)
                if number is None:
                    self._pending.append((self._rules[rule], source, target))
                else:
                    nfa.add_edge(source, CALL_BASE + number, CALL_BASE + number, target)
            case Sequence(items):
                self._lower_sequence(items, source, target)
            case Choice(options):
                self._pending.extend((option, source, target) for option in reversed(options))
            case Repeat(item, minimum, maximum):
                self._lower_repeat(item, minimum, maximum, source, target)
            case Graph():
                self._lower_graph(expression, source, target)
            case Tokens():
                symbol = TOKENS_BASE + self._set_number(expression)
                nfa.add_edge(source, symbol, symbol, target)
            case Metered():
                raise AssertionError("taken out by with_token_ids")

    def _set_number(self, tokens: Tokens) -> int:
        number = self._set_numbers.setdefault(tokens, len(self._token_sets))
        if number == len(self._token_sets):
            self._token_sets.append(tokens)
        return number

    def _encode(self, code_points: CodePoints) -> Dfa:
        encoded = self._encoded.get(code_points)
        if encoded is None:
            encoded = self._encoded[code_points] = encode_utf8(characters(code_points), self._budget)
        return encoded

    def _lower_literal(self, data: bytes, source: int, target: int) -> None:
        if not data:
            self._nfa.add_epsilon(source, target)
            return
        self._nfa.add_word(source, data, target)

    def _lower_sequence(self, items: tuple[Expression, ...], source: int, target: int) -> None:
        if not items:
            self._nfa.add_epsilon(source, target)
            return
        stops = [source, *(self._nfa.add_state() for _ in items[:-1]), target]
        self._pending.extend((item, stops[at], stops[at + 1]) for at, item in reversed(list(enumerate(items))))

    def _lower_graph(self, graph: Graph, source: int, target: int) -> None:
        states = [self._nfa.add_state() for _ in range(graph.state_count)]
        self._nfa.add_epsilon(source, states[0])
        self._nfa.add_epsilon(states[graph.final], target)
        self._pending.extend((item, states[before], states[after]) for before, item, after in reversed(graph.edges))

    def _lower_repeat(self, item: Expression, minimum: int, maximum: int | None, source: int, target: int) -> None:
        if maximum is not None and maximum < minimum:
            return  # no count at all satisfies both
        nfa = self._nfa
        here = nfa.add_state()
        nfa.add_epsilon(source, here)
        for _ in range(minimum):
            after = nfa.add_state()
            self._pending.append((item, here, after))
            here = after
        if maximum is None:
            loop, back = nfa.add_state(), nfa.add_state()
            nfa.add_epsilon(here, loop)
            self._pending.append((item, loop, back))
            nfa.add_epsilon(back, loop)
            nfa.add_epsilon(loop, target)
            return
        for _ in range(maximum - minimum):
            nfa.add_epsilon(here, target)
            after = nfa.add_state()
            self._pending.append((item, here, after))
            here = after
        nfa.add_epsilon(here, target)
