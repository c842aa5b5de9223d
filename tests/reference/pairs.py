"""The slow, obvious twin of the pairing of two rules: byte by byte, and a search for every state by itself.

Owns the definitions of base, of the bytes that tell a state from it, and of the bytes that tell any two states apart.
"""

from __future__ import annotations

from collections import deque

from shmcache.automaton.grammar_automaton import GrammarAutomaton

FOREVER = 1_000
"""For states that no bytes tell apart."""


class Pairs:
    """The states of rules that call nothing."""

    def __init__(self, automaton: GrammarAutomaton) -> None:
        edges = {state: automaton.edges_of(state) for state in range(automaton.state_count)}
        starts = {at for row in edges.values() for low, high, _ in row for at in (low, high + 1)}
        # Bytes between two starts are on the same edges everywhere; the first stands for all of them.
        self.bytes = sorted({0, *starts} - {256})
        self.final = automaton.final.tolist()
        self.after = {
            (state, byte): target
            for state, row in edges.items()
            for byte in self.bytes
            for low, high, target in row
            if low <= byte <= high
        }

    def bases(self, start: int, base_start: int) -> dict[int, int]:
        """For each state of a rule the state of another that the first found of the same bytes lead to."""
        found = {start: base_start}
        pending = deque([start])
        while pending:
            state = pending.popleft()
            for byte in self.bytes:
                target, other = self.after.get((state, byte)), self.after.get((found[state], byte))
                if target is not None and other is not None and target not in found:
                    found[target] = other
                    pending.append(target)
        return found

    def likeness(self, base_of: dict[int, int], state: int) -> int:
        """How many bytes lead nowhere where a state is not like its base; -1 where it is itself no end as that is."""
        distance = {state: 0}
        pending = deque([state])
        found = [FOREVER]
        while pending:
            here = pending.popleft()
            base = base_of[here]
            if self.final[here] != self.final[base]:
                found.append(distance[here] - 1)
            for byte in self.bytes:
                target, other = self.after.get((here, byte)), self.after.get((base, byte))
                if (None if target is None else base_of.get(target, -1)) != other:
                    found.append(distance[here])
                elif target is not None and target not in distance:
                    distance[target] = distance[here] + 1
                    pending.append(target)
        return min(found)

    def likeness_of_words(self, first: int, second: int) -> int:
        """Up to which length every word that one state takes, or ends behind, the other does, too."""
        pairs, seen = {(first, second)}, set[tuple[int, int]]()
        for length in range(FOREVER):
            if any(self.final[one] != self.final[other] for one, other in pairs):
                return length - 1
            seen |= pairs
            following = set()
            for one, other in pairs:
                for byte in self.bytes:
                    target, target_other = self.after.get((one, byte)), self.after.get((other, byte))
                    if (target is None) != (target_other is None):
                        return length
                    if target is not None and target_other is not None:
                        following.add((target, target_other))
            pairs = following - seen
            if not pairs:
                break
        return FOREVER
