"""A name for what a rule accepts: equal for equal rules of different grammars.

Owns the structural digest of a rule automaton, under which its rows are shared. Must never know rows or tokens.
"""

from __future__ import annotations

import hashlib
from array import array

from shmcache.automaton.grammar_automaton import GrammarAutomaton
from shmcache.automaton.inlining import strongly_connected

_DIGEST_BYTES = 32

_UNFOLDED_RULES_MAX = 64
"""Groups of more rules that call each other are not unfolded, which takes the square of their number."""


def rule_digests(automaton: GrammarAutomaton) -> list[bytes]:
    """For each rule 32 bytes that cover its automaton and, through calls, those of the rules it calls.

    Rules that call each other are unfolded as deep as it takes to tell two such groups of that size apart (Moore 1956:
    one round less than there are rules), so equal digests mean equal languages, state by state. Equal rules may all the
    same get different digests: where another rule of their grammar calls the same callees in another order, and in very
    large groups. Then their rows are computed twice.
    """
    callees = [
        sorted({rule for state in automaton.states_of(rule) for rule, _ in automaton.calls_of(state)})
        for rule in range(automaton.rule_count)
    ]
    bodies = [_body(automaton, rule) for rule in range(automaton.rule_count)]
    digests: list[bytes] = [b""] * automaton.rule_count
    for members in strongly_connected(dict(enumerate(callees))):
        if len(members) > _UNFOLDED_RULES_MAX:
            grammar = hashlib.blake2b(b"".join(array.tobytes() for array in automaton.arrays())).digest()
            for rule in members:
                digests[rule] = _digest(0, (grammar + rule.to_bytes(8, "little"), []), [])
            continue
        is_recursive = len(members) > 1 or members[0] in callees[members[0]]
        # A round number in the digest keeps apart groups that were unfolded to different depths.
        rounds = 2 * len(members) + 1 if is_recursive else 1
        for _ in range(rounds):
            fresh = [_digest(rounds, bodies[rule], [digests[callee] for callee in bodies[rule][1]]) for rule in members]
            for rule, digest in zip(members, fresh, strict=True):
                digests[rule] = digest
    return digests


def _body(automaton: GrammarAutomaton, rule: int) -> tuple[bytes, list[int]]:
    """The rule's automaton in its own numbering as bytes, and the rules it calls in order of appearance."""
    first = int(automaton.rule_start[rule])
    order: dict[int, int] = {}
    numbers = array("q")
    for state in automaton.states_of(rule):
        numbers.append(-3 if automaton.final[state] else -2)
        for low, high, target in automaton.edges_of(state):
            numbers.extend((low, high, target - first))
        numbers.append(-4)
        for callee, return_state in automaton.calls_of(state):
            place = order.setdefault(callee, len(order))
            numbers.extend((place, return_state - first if return_state >= 0 else -1))
        for number, target in automaton.whole_edges_of(state):
            is_excluded, ids = automaton.token_set(number)
            numbers.extend((-6 if is_excluded else -5, target - first, len(ids), *ids.tolist()))
    return numbers.tobytes(), list(order)


def _digest(rounds: int, body: tuple[bytes, list[int]], callees: list[bytes]) -> bytes:
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    digest.update(rounds.to_bytes(8, "little"))
    digest.update(body[0])
    for callee in callees:
        digest.update(len(callee).to_bytes(1, "little"))
        digest.update(callee)
    return digest.digest()
