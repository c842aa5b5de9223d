"""The slow, obvious twins of the row kernels: every token by itself, over sets of (state, stack).

Owns the definitions of accepted, uncertain and possible tokens. Must never share code with the kernels.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from shmcache.automaton.grammar_automaton import TAIL_CALL, GrammarAutomaton
from shmcache.rows.row_table import ACCEPTED_IDS, BITSET, NO_ROW, REJECTED_IDS, RowTable
from shmcache.vocabulary.vocabulary import Vocabulary
from tests.reference.configurations import ENTRIES_MAX, Configuration, Stack, TooAmbiguousError, advance


@dataclass(frozen=True)
class Row:
    """The tokens that a state accepts, and those that depend on the caller."""

    accepted: frozenset[int]
    uncertain: frozenset[int]


def text_tokens(vocabulary: Vocabulary) -> dict[int, bytes]:
    """The tokens that a grammar can accept, by id."""
    return {number: vocabulary.token_bytes(number) for number in range(vocabulary.size) if vocabulary.is_text(number)}


def row_of(automaton: GrammarAutomaton, state: int, vocabulary: Vocabulary) -> Row:
    """What is known of each token when only the state is: no call is open that is left by more than its end."""
    return row_from(automaton, frozenset({(state, ())}), vocabulary)


def row_from(automaton: GrammarAutomaton, entries: frozenset[tuple[int, Stack]], vocabulary: Vocabulary) -> Row:
    """The same from several entries; only the empty stack is left by more than its end."""
    accepted, uncertain = set(), set()
    for number, token in text_tokens(vocabulary).items():
        here = Configuration(entries, ended=False)
        has_left = False
        for at in range(len(token)):
            # A token only leaves the rule from a place within the token.
            has_left = has_left or (at > 0 and here.ended)
            here = advance(automaton, here, token[at : at + 1])
        if here.is_alive:
            accepted.add(number)
        elif has_left:
            uncertain.add(number)
    return Row(frozenset(accepted), frozenset(uncertain))


def accepts_from(automaton: GrammarAutomaton, state: int, stack: Stack, token: bytes) -> bool:
    """Whether the token is accepted when the whole stack is known."""
    return advance(automaton, Configuration(frozenset({(state, stack)}), ended=False), token).is_alive


def is_possible(automaton: GrammarAutomaton, state: int, token: bytes) -> bool:
    """Whether some chain of callers, as far as calls allow, lets the token be accepted from the state.

    Below the calls opened within the token, only the rule that runs is known; returning from it leads behind any call
    of it, and any call of that caller may lie below.
    """
    callers: dict[int, set[tuple[int, int]]] = {rule: set() for rule in range(automaton.rule_count)}
    for caller_state in range(automaton.state_count):
        for rule, return_state in automaton.calls_of(caller_state):
            callers[rule].add((return_state, int(automaton.rule_of_state[caller_state])))

    def returns(rule: int) -> set[int]:
        """Where the text may go on behind the end of ``rule``; -1: it may end."""
        found, seen, pending = set(), {rule}, [rule]
        while pending:
            here = pending.pop()
            if here == 0:
                found.add(-1)
            for return_state, caller in callers[here]:
                if return_state != TAIL_CALL:
                    found.add(return_state)
                elif caller not in seen:
                    seen.add(caller)
                    pending.append(caller)
        return found

    entries: set[tuple[int, Stack, int]] = {(state, (), int(automaton.rule_of_state[state]))}
    for byte in token:
        moved = {
            (target, stack, rule)
            for here, stack, rule in entries
            for low, high, target in automaton.edges_of(here)
            if low <= byte <= high
        }
        entries = set(moved)
        pending = list(moved)
        may_end = False
        while pending:
            here, stack, rule = pending.pop()
            found: list[tuple[int, Stack, int]] = []
            if automaton.final[here] and stack:
                found.append((stack[-1], stack[:-1], rule))
            elif automaton.final[here]:
                behind = returns(rule)
                may_end = may_end or -1 in behind
                found += [(after, (), int(automaton.rule_of_state[after])) for after in behind if after >= 0]
            for callee, return_state in automaton.calls_of(here):
                below = stack if return_state == TAIL_CALL else (*stack, return_state)
                # Behind a tail call the callee's end is the end of the rule at the bottom.
                found.append((int(automaton.rule_start[callee]), below, rule))
            for entry in found:
                if entry not in entries:
                    entries.add(entry)
                    pending.append(entry)
            if len(entries) > ENTRIES_MAX:
                raise TooAmbiguousError
    return bool(entries) or may_end


def reference_row(automaton: GrammarAutomaton, state: int, vocabulary: Vocabulary) -> Row:
    """The row of the whole grammar: uncertain are only the tokens that some caller accepts."""
    row = row_of(automaton, state, vocabulary)
    tokens = text_tokens(vocabulary)
    possible = {number for number in row.uncertain if is_possible(automaton, state, tokens[number])}
    return Row(row.accepted, frozenset(possible))


def stored_set(table: RowTable, number: int, vocabulary: Vocabulary) -> set[int]:
    """Ids of an accepted set; checks that its form is what it says, and the smallest."""
    form, data = table.accepted_set(number)
    values = data.tolist()
    tokens = text_tokens(vocabulary)
    word_count = -(-vocabulary.width // 32)
    if form == BITSET:
        assert len(values) == word_count
        accepted = {32 * word + bit for word, value in enumerate(values) for bit in range(32) if value >> bit & 1}
    else:
        assert form in (ACCEPTED_IDS, REJECTED_IDS)
        assert values == sorted(set(values))
        accepted = set(values) if form == ACCEPTED_IDS else tokens.keys() - set(values)
    assert accepted <= tokens.keys()
    smallest = min(len(accepted), len(tokens) - len(accepted), word_count)
    assert len(values) == smallest, "not the smallest form"
    return accepted


def stored_row(table: RowTable, state: int, vocabulary: Vocabulary) -> Row | None:
    """What the table holds for the state, as sets of ids; checks that the form is what it says."""
    number = int(table.state_accepted[state])
    if number == NO_ROW:
        assert table.state_uncertain[state] == NO_ROW
        return None
    accepted = stored_set(table, number, vocabulary)
    tokens = text_tokens(vocabulary)
    uncertain = table.uncertain_list(int(table.state_uncertain[state])).tolist()
    assert uncertain == sorted(uncertain, key=lambda one: (tokens[one], one)), "not in the order of the trie"
    assert len(set(uncertain)) == len(uncertain)
    return Row(frozenset(accepted), frozenset(uncertain))


Followers = dict[int, set[int]]
"""For each byte that may follow, the bytes that may follow it."""


def followers(automaton: GrammarAutomaton, rules: Iterable[int]) -> Followers:
    """What may follow any of the rules, two bytes deep, where from the first of them to the second callers may change.

    By growing sets of states until nothing is added: those in which the text may be behind the end of each rule.
    """
    calls = [
        (int(automaton.rule_of_state[state]), rule, return_state)
        for state in range(automaton.state_count)
        for rule, return_state in automaton.calls_of(state)
    ]

    def opened(states: set[int]) -> set[int]:
        """The states, and the starts of what they call, and so on."""
        while True:
            starts = {int(automaton.rule_start[rule]) for state in states for rule, _ in automaton.calls_of(state)}
            if starts <= states:
                return states
            states = states | starts

    behind: dict[int, set[int]] = {rule: set() for rule in range(automaton.rule_count)}
    while True:
        before = sum(map(len, behind.values()))
        for caller, rule, return_state in calls:
            if return_state != TAIL_CALL:
                behind[rule].add(return_state)
            if return_state == TAIL_CALL or automaton.final[return_state]:
                behind[rule] |= behind[caller]
        if sum(map(len, behind.values())) == before:
            break

    found: Followers = {}
    for state in opened({state for rule in rules for state in behind[rule]}):
        for low, high, target in automaton.edges_of(state):
            here = {target} | (behind[int(automaton.rule_of_state[target])] if automaton.final[target] else set())
            edges = [edge for one in opened(here) for edge in automaton.edges_of(one)]
            seconds = {byte for first, last, _ in edges for byte in range(first, last + 1)}
            for byte in range(low, high + 1):
                found.setdefault(byte, set()).update(seconds)
    return found


def is_followed(automaton: GrammarAutomaton, state: int, token: bytes, followed: Followers) -> bool:
    """Whether the token can leave the state's rule somewhere within it and go on with bytes that may follow."""
    here = Configuration(frozenset({(state, ())}), ended=False)
    for at in range(1, len(token)):
        here = advance(automaton, here, token[at - 1 : at])
        rest = token[at:]
        if here.ended and rest[0] in followed and (len(rest) == 1 or rest[1] in followed[rest[0]]):
            return True
    return False
