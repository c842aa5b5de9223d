"""A name for what a rule accepts: equal for equal rules of different grammars.

Owns the structural digest of a rule automaton, under which its rows are shared. Must never know rows or tokens.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from shmcache.array_types import Int32Array
from shmcache.automaton.grammar_automaton import TAIL_CALL, GrammarAutomaton
from shmcache.automaton.rule_graph import strongly_connected

_DIGEST_BYTES = 32

_UNFOLDED_RULES_MAX = 64
"""Groups of more rules that call each other are not unfolded, which takes the square of their number."""


def rule_digests(automaton: GrammarAutomaton, rules: list[int]) -> dict[int, bytes]:
    """For each of ``rules`` 32 bytes that cover its automaton and, through calls, those of the rules it calls.

    Rules that call each other are unfolded as deep as it takes to tell two such groups of that size apart (Moore 1956:
    one round less than there are rules), so equal digests mean equal languages, state by state. Equal rules may all the
    same get different digests: where another rule of their grammar calls the same callees in another order, and in very
    large groups. Then their rows are computed twice.
    """
    bodies: dict[int, _Body] = {}
    pending = list(rules)
    while pending:
        rule = pending.pop()
        if rule not in bodies:
            bodies[rule] = _body(automaton, rule)
            pending.extend(bodies[rule].callees)
    graph = {rule: sorted(bodies[rule].callees) for rule in sorted(bodies)}
    digests: dict[int, bytes] = dict.fromkeys(bodies, b"")
    for members in strongly_connected(graph):
        if len(members) > _UNFOLDED_RULES_MAX:
            grammar = hashlib.blake2b(b"".join(array.tobytes() for array in automaton.arrays())).digest()
            for rule in members:
                digests[rule] = _digest(0, _Body(grammar + rule.to_bytes(8, "little"), []), [])
            continue
        is_recursive = len(members) > 1 or members[0] in graph[members[0]]
        # A round number in the digest keeps apart groups that were unfolded to different depths.
        rounds = 2 * len(members) + 1 if is_recursive else 1
        for _ in range(rounds):
            fresh = [
                _digest(rounds, bodies[rule], [digests[callee] for callee in bodies[rule].callees]) for rule in members
            ]
            digests.update(zip(members, fresh, strict=True))
    return {rule: digests[rule] for rule in rules}


@dataclass(frozen=True, slots=True)
class _Body:
    """A rule's automaton in its own numbering, and the rules it calls in order of appearance."""

    data: bytes
    callees: list[int]


def _body(automaton: GrammarAutomaton, rule: int) -> _Body:
    states = automaton.states_of(rule)
    first = states.start
    edges, edge_counts = _part(automaton.edge_offset, states)
    calls, call_counts = _part(automaton.call_offset, states)
    called = automaton.call_rule[calls]
    callees = list(dict.fromkeys(called.tolist()))
    places = {callee: place for place, callee in enumerate(callees)}
    returns = automaton.call_return[calls]
    parts: list[npt.NDArray[Any]] = [
        automaton.final[states.start : states.stop],
        edge_counts,
        automaton.edge_low[edges],
        automaton.edge_high[edges],
        automaton.edge_target[edges] - first,
        call_counts,
        np.array([places[callee] for callee in called.tolist()], dtype=np.int32),
        np.where(returns == TAIL_CALL, -1, returns - first),
    ]
    if automaton.has_whole_tokens:
        wholes, whole_counts = _part(automaton.whole_offset, states)
        parts += [whole_counts, automaton.whole_target[wholes] - first]
        for number in automaton.whole_set[wholes].tolist():
            is_excluded, ids = automaton.token_set(number)
            parts += [np.array([is_excluded], dtype=np.int32), ids]
    # A count of items before each part, so that no two lists of parts have the same bytes.
    data = b"".join(len(part).to_bytes(8, "little") + part.astype("<i4").tobytes() for part in parts)
    return _Body(data, callees)


def _part(offsets: Int32Array, states: range) -> tuple[slice, Int32Array]:
    """Where the states' edges lie, and how many each of them has."""
    part = offsets[states.start : states.stop + 1]
    return slice(int(part[0]), int(part[-1])), np.diff(part)


def _digest(rounds: int, body: _Body, callees: list[bytes]) -> bytes:
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    digest.update(rounds.to_bytes(8, "little"))
    digest.update(body.data)
    for callee in callees:
        digest.update(len(callee).to_bytes(1, "little"))
        digest.update(callee)
    return digest.digest()
