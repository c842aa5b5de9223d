"""Byte automata of JSON strings: quoted, any, and of a given number of characters.

Owns automata only. Must never know a schema or a rule.
"""

from __future__ import annotations

from functools import cache

from shmcache.limits import Budget
from shmcache.regular.code_points import ANY
from shmcache.regular.dfa import EMPTY_LANGUAGE, Dfa, Edge
from shmcache.regular.encode import encode_json_string
from shmcache.regular.operations import characters, everything

_QUOTE = ord('"')


def quoted(content: Dfa) -> Dfa:
    """The byte automaton of ``content``, in which no bare quote occurs, between quotes; minimal when that is."""
    if content.is_empty:
        return EMPTY_LANGUAGE
    final = content.state_count + 1
    rows: list[tuple[Edge, ...]] = [((_QUOTE, _QUOTE, 1),)]
    for row, accepts in zip(content.edges, content.accepting, strict=True):
        shifted = [(low, high, target + 1) for low, high, target in row]
        if accepts:
            shifted.append((_QUOTE, _QUOTE, final))
            shifted.sort()
        rows.append(tuple(shifted))
    rows.append(())
    return Dfa(edges=tuple(rows), accepting=(False,) * final + (True,))


@cache
def any_string() -> Dfa:
    """Every JSON string, quotes included."""
    return quoted(encode_json_string(everything(ANY), Budget()))


@cache
def _one_character() -> Dfa:
    """One character in any spelling. State 0 is entered by no edge, and one state accepts, which has no edges."""
    return encode_json_string(characters(ANY), Budget())


def counted(minimum: int, maximum: int | None, budget: Budget) -> Dfa:
    """A chain of copies of the automaton of one character; the last one loops when there is no maximum."""
    unit = _one_character()
    (end,) = (state for state, accepts in enumerate(unit.accepting) if accepts)
    inner = [state for state in range(unit.state_count) if state != end]
    place = {state: at for at, state in enumerate(inner)}
    size = len(inner)
    copies = minimum + 1 if maximum is None else maximum
    budget.spend_states(copies * size + 1)
    rows: list[tuple[Edge, ...]] = []
    for copy in range(copies):
        here = copy * size
        following = here if maximum is None and copy == minimum else here + size
        for state in inner:
            rows.append(
                tuple(
                    (low, high, following if target == end else here + place[target])
                    for low, high, target in unit.edges[state]
                )
            )
    starts_accepting = [copy >= minimum for copy in range(copies)]
    accepting = [at % size == 0 and starts_accepting[at // size] for at in range(copies * size)]
    if maximum is not None:
        rows.append(())
        accepting.append(True)
    return Dfa(edges=tuple(rows), accepting=tuple(accepting))
