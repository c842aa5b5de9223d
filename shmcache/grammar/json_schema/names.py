"""Names of properties as sets: which patterns they match, and which are admitted at all.

Owns the automata of sets of names, by number. Must never know objects or the values that stand behind names.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable

from shmcache.grammar.ir import Expression, Regular
from shmcache.grammar.json_schema.nodes import ANYTHING, Node
from shmcache.grammar.json_schema.objects import NameSet, Need
from shmcache.grammar.json_schema.rules import Rules
from shmcache.grammar.json_schema.strings import Strings, StringSet
from shmcache.limits import Budget
from shmcache.regular.code_points import ANY
from shmcache.regular.dfa import EMPTY_LANGUAGE, Dfa
from shmcache.regular.operations import everything, intersect, partition, subtract, unite, words

Key = str | int
"""A pattern, or the number of a need."""


class Names:
    """Sets of names, each made once per compile. ``strings_of`` gives the strings that satisfy a node."""

    def __init__(self, strings: Strings, strings_of: Callable[[Node], tuple[StringSet, ...]], budget: Budget) -> None:
        self._strings = strings
        self._strings_of = strings_of
        self._budget = budget
        self._automata: list[Dfa] = []
        self._numbers: dict[Dfa, NameSet] = {}
        self._needed: dict[Need, Dfa] = {}
        self._known_admitted: dict[Node, Dfa] = {ANYTHING: everything(ANY)}
        self._partitions: dict[tuple[Hashable, ...], list[tuple[frozenset[Key], NameSet]]] = {}
        self._splitters: list[tuple[Key, Dfa]] = []  # whose identities are part of the keys above

    def matches(self, pattern: str, name: str) -> bool:
        """Whether the pattern is found in the name."""
        return self._strings.pattern(pattern).accepts(map(ord, name))

    def matching(self, pattern: str) -> Dfa:
        """The names in which the pattern is found."""
        return self._strings.pattern(pattern)

    def needed(self, need: Need) -> Dfa:
        """The names of members that may satisfy the need."""
        known = self._needed.get(need)
        if known is None:
            known = self.admitted(need.names)
            if need.pattern is not None:
                known = intersect(known, self.matching(need.pattern), self._budget)
            for pattern in need.unmatched:
                known = subtract(known, self.matching(pattern), self._budget)
            if need.excluded:
                known = subtract(known, words(sorted(need.excluded), self._budget), self._budget)
            self._needed[need] = known
        return known

    def is_needed(self, need: Need, name: str) -> bool:
        """Whether a member of that name may satisfy the need."""
        if name in need.excluded or (need.names == ANYTHING and need.pattern is None and not need.unmatched):
            return name not in need.excluded
        return self.needed(need).accepts(map(ord, name))

    def admits(self, node: Node, name: str) -> bool:
        """Whether the name satisfies the node."""
        return node == ANYTHING or self.admitted(node).accepts(map(ord, name))

    def admitted(self, node: Node) -> Dfa:
        """The names that satisfy the node."""
        known = self._known_admitted.get(node)
        if known is None:
            known = EMPTY_LANGUAGE
            for one in self._strings_of(node):
                known = unite(known, self._strings.text_automaton(one), self._budget)
            self._known_admitted[node] = known
        return known

    def partition(
        self, node: Node, declared: Iterable[str], splitters: Iterable[tuple[Key, Dfa]]
    ) -> list[tuple[frozenset[Key], NameSet]]:
        """The names that satisfy ``node``, less the ``declared`` ones, by the splitters they are in; no empty sets.

        As many sets as there are ways to match, which are few where patterns seldom overlap.
        """
        excluded, listed = frozenset(declared), tuple(splitters)
        what = (node, excluded, tuple((key, id(automaton)) for key, automaton in listed))
        known = self._partitions.get(what)
        if known is None:
            automata = [words(sorted(excluded), self._budget), *(automaton for _, automaton in listed)]
            parts = partition(self.admitted(node), automata, self._budget)
            self._splitters += listed
            known = self._partitions[what] = [
                (frozenset(key for (key, _), is_in in zip(listed, kind, strict=True) if is_in), self._number(names))
                for (is_excluded, *kind), names in parts.items()
                if not is_excluded
            ]
        return known

    def union(self, sets: list[NameSet]) -> NameSet:
        """The names of any of the sets."""
        result = self._automata[sets[0]]
        for one in sets[1:]:
            result = unite(result, self._automata[one], self._budget)
        return self._number(result)

    def _number(self, names: Dfa) -> NameSet:
        number = self._numbers.setdefault(names, len(self._automata))
        if number == len(self._automata):
            self._automata.append(names)
        return number

    def automaton(self, names: NameSet) -> Dfa:
        """The names of the set."""
        return self._automata[names]

    def expression(self, names: NameSet, rules: Rules) -> Expression:
        """Any name of the set, quotes included."""
        automaton = self._automata[names]
        return rules.shared(("names", automaton), lambda: Regular(self._strings.spelled_as_name(automaton)))

    def others(self, declared: frozenset[str], rules: Rules) -> Expression:
        """Any name but these, quotes included."""
        return self._strings.other_name(declared, rules)
