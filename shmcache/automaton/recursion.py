"""Empty words and left recursion taken out of lowered rules, so that every call consumes at least one byte.

Owns three rewritings of the lowered automaton, each of which keeps its language:

1. a call of a rule that may be empty gets an epsilon edge beside it, and from then on a call means a non-empty word;
2. a call of a rule with no non-empty word is removed;
3. left recursion, direct and through other rules, is replaced by loops (Paull's elimination, on automata: with
   ``A = start --A--> t | …`` every other word of A may be followed by any number of words from ``t`` to the end).

Afterwards the graph of left calls has no cycle, so a matcher that opens calls comes to an end.
"""

from __future__ import annotations

from shmcache.automaton.lowering import CALL_BASE, LoweredRules
from shmcache.automaton.rule_graph import strongly_connected
from shmcache.regular.dfa import Edge


def _closure(lowered: LoweredRules, state: int) -> list[int]:
    lowered.nfa.budget.check_time()
    seen = {state}
    order = [state]
    for one in order:  # grows while it is walked
        for target in lowered.nfa.epsilons[one]:
            if target not in seen:
                seen.add(target)
                order.append(target)
    return order


def _fragment(lowered: LoweredRules, start: int) -> list[int]:
    """All states of the rule that begins at ``start``."""
    seen = {start}
    order = [start]
    for one in order:  # grows while it is walked
        for target in lowered.nfa.epsilons[one] + [edge[2] for edge in lowered.nfa.edges[one]]:
            if target not in seen:
                seen.add(target)
                order.append(target)
    return order


def remove_empty_words(lowered: LoweredRules) -> list[bool]:
    """Rewritings 1 and 2; returns which rules may be empty. Takes time in proportion to the edges."""
    nfa = lowered.nfa
    calls: list[list[tuple[int, Edge]]] = [[] for _ in lowered.names]
    for state, row in enumerate(nfa.edges):
        for edge in row:
            if edge[0] >= CALL_BASE:
                calls[edge[0] - CALL_BASE].append((state, edge))
    rule_of_final = {final: rule for rule, final in enumerate(lowered.finals)}
    nullable = [False] * len(lowered.names)
    # Reached without a byte from the start of the rule that the state belongs to.
    reached = set(lowered.starts)
    pending = list(lowered.starts)
    while pending:
        nfa.budget.check_time()
        state = pending.pop()
        found = list(nfa.epsilons[state])
        rule = rule_of_final.get(state)
        if rule is not None:
            nullable[rule] = True
            for source, (_, _, target) in calls[rule]:
                nfa.add_epsilon(source, target)
                if source in reached:
                    found.append(target)
        pending.extend(target for target in dict.fromkeys(found) if target not in reached)
        reached.update(found)
    productive = _productive(lowered)
    for rule, sites in enumerate(calls):
        if not productive[rule]:
            for state, edge in sites:
                nfa.edges[state].remove(edge)
    return nullable


def _productive(lowered: LoweredRules) -> list[bool]:
    """Which rules have a non-empty word of bytes."""
    nfa = lowered.nfa
    nfa.budget.check_time()
    rule_of_final = {final: rule for rule, final in enumerate(lowered.finals)}
    productive = [False] * len(lowered.names)
    # Place 2s is state s reached without a byte, place 2s + 1 with one; what lies behind a call waits for its word.
    reached = bytearray(2 * len(nfa.edges))
    waiting: list[list[int]] = [[] for _ in lowered.names]
    pending = [2 * start for start in lowered.starts]
    while pending:
        place = pending.pop()
        if reached[place]:
            continue
        reached[place] = 1
        state, consumed = divmod(place, 2)
        pending += [2 * target + consumed for target in nfa.epsilons[state]]
        for low, _, target in nfa.edges[state]:
            if low < CALL_BASE or productive[low - CALL_BASE]:
                pending.append(2 * target + 1)
            else:
                waiting[low - CALL_BASE].append(2 * target + 1)
        if consumed and state in rule_of_final:
            productive[rule_of_final[state]] = True
            pending += waiting[rule_of_final[state]]
    return productive


def _left_calls(lowered: LoweredRules, rule: int) -> list[int]:
    return [
        low - CALL_BASE
        for state in _closure(lowered, lowered.starts[rule])
        for low, _, _ in lowered.nfa.edges[state]
        if low >= CALL_BASE
    ]


def _start_calls(lowered: LoweredRules, rule: int) -> list[int]:
    """Rules called by the start itself."""
    return [low - CALL_BASE for low, _, _ in lowered.nfa.edges[lowered.starts[rule]] if low >= CALL_BASE]


def remove_left_recursion(lowered: LoweredRules) -> None:
    """Rewriting 3. Substitution within a cycle can multiply states; the budget bounds it."""
    graph = {rule: _left_calls(lowered, rule) for rule in range(len(lowered.names))}
    for component in strongly_connected(graph):
        members = sorted(component)
        if len(members) == 1 and members[0] not in graph[members[0]]:
            continue
        done: set[int] = set()
        for rule in members:
            _separate_start(lowered, rule)
            # What is put in the place of an earlier member begins with later ones only, so this comes to an end.
            while earlier := done.intersection(_start_calls(lowered, rule)):
                _substitute_left(lowered, rule, min(earlier))
            _loop_direct(lowered, rule)
            done.add(rule)


def _separate_start(lowered: LoweredRules, rule: int) -> None:
    """A fresh start that has the consuming edges of the old one's closure itself, and no epsilon edge."""
    nfa = lowered.nfa
    edges = [edge for state in _closure(lowered, lowered.starts[rule]) for edge in nfa.edges[state]]
    start = nfa.add_state()
    for edge in dict.fromkeys(edges):
        nfa.add_edge(start, *edge)
    lowered.starts[rule] = start


def _substitute_left(lowered: LoweredRules, rule: int, earlier: int) -> None:
    """Replaces ``start --earlier--> t`` by a copy of the earlier rule that ends in ``t``."""
    nfa = lowered.nfa
    nfa.budget.check_time()
    start = lowered.starts[rule]
    symbol = CALL_BASE + earlier
    returns = [target for low, _, target in nfa.edges[start] if low == symbol]
    nfa.edges[start] = [edge for edge in nfa.edges[start] if edge[0] != symbol]
    fragment = _fragment(lowered, lowered.starts[earlier])
    copies = {state: nfa.add_state() for state in fragment if state != lowered.starts[earlier]}
    for state, copy in copies.items():
        for low, high, target in nfa.edges[state]:
            nfa.add_edge(copy, low, high, copies[target])
        for target in nfa.epsilons[state]:
            nfa.add_epsilon(copy, copies[target])
    for low, high, target in nfa.edges[lowered.starts[earlier]]:
        nfa.add_edge(start, low, high, copies[target])
    for target in returns:
        if lowered.finals[earlier] in copies:
            nfa.add_epsilon(copies[lowered.finals[earlier]], target)


def _loop_direct(lowered: LoweredRules, rule: int) -> None:
    """Replaces ``start --rule--> t`` by an epsilon from the rule's end to ``t``."""
    nfa = lowered.nfa
    start = lowered.starts[rule]
    symbol = CALL_BASE + rule
    returns = [target for low, _, target in nfa.edges[start] if low == symbol]
    nfa.edges[start] = [edge for edge in nfa.edges[start] if edge[0] != symbol]
    for target in returns:
        nfa.add_epsilon(lowered.finals[rule], target)
