"""Objects ready to be written: what every name's value must satisfy, worked out.

Owns the finishing of a record of objects: names by their patterns, needs, strict mode, and what is declared. Must never
know keywords or spellings.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from shmcache.errors import LimitError
from shmcache.grammar.json_schema.names import Names
from shmcache.grammar.json_schema.nodes import ANYTHING, NEVER, Node, Openness, both
from shmcache.grammar.json_schema.objects import ANY_OBJECT, NameSet, ObjectSet

NEEDS_MAX = 6
"""Most needs of one record: as many levels as they have subsets are told apart."""


def finished_object(objects: ObjectSet, names: Names, *, is_strict: bool) -> ObjectSet:
    """The record with everything worked into the nodes of names, the required ones declared, and strict mode applied.

    A schema that says what names must be like, or asks for more members than it declares, does speak of further
    members, so strict mode leaves those open.
    """
    declared = {name for name, _ in objects.properties}
    undeclared = tuple((name, objects.extra) for name in objects.required if name not in declared)
    if undeclared:
        objects = replace(objects, properties=objects.properties + undeclared)
    is_closed = is_strict and objects.openness == Openness.SILENT and objects.minimum <= len(objects.properties)
    if objects.layers or objects.names != ANYTHING or objects.needs:
        objects = _Finishing(objects, names, is_closed=is_closed).finished()
    elif is_closed:
        objects = replace(objects, extra=NEVER, openness=Openness.STATED)
    return counted_object(objects)


def counted_object(objects: ObjectSet) -> ObjectSet:
    """The record without bounds that have no effect."""
    maximum = objects.maximum
    if objects.extra == NEVER and not objects.others and maximum is not None and maximum >= len(objects.properties):
        maximum = None
    minimum = objects.minimum if objects.minimum > len(objects.required) else 0
    if (minimum, maximum) != (objects.minimum, objects.maximum):
        objects = replace(objects, minimum=minimum, maximum=maximum)
    is_free = objects.extra == ANYTHING and all(node == ANYTHING for _, node in objects.properties)
    is_bounded = bool(objects.required or objects.minimum or objects.needs or maximum is not None)
    if is_free and not (is_bounded or objects.others or objects.alternatives):
        return ANY_OBJECT
    return objects


class _Finishing:
    """Tells names apart by patterns and needs. Names that no pattern matches are refused where it ``is_closed``."""

    def __init__(self, objects: ObjectSet, names: Names, *, is_closed: bool) -> None:
        if len(objects.needs) > NEEDS_MAX:
            raise LimitError(
                f"a schema asks for more than {NEEDS_MAX} kinds of members", limit="needs", value=NEEDS_MAX
            )
        self._objects = objects
        self._names = names
        self._is_closed = is_closed
        self._patterns = tuple(dict.fromkeys(pattern for layer in objects.layers for pattern, _ in layer.patterns))
        self._satisfying: list[tuple[str | NameSet, int, Node]] = []

    def finished(self) -> ObjectSet:
        properties = tuple((name, self._declared(name, node)) for name, node in self._objects.properties)
        others = tuple(self._others())
        return replace(
            self._objects,
            properties=properties,
            extra=NEVER,
            openness=Openness.STATED,
            layers=(),
            names=ANYTHING,
            others=others,
            satisfying=tuple(self._satisfying),
        )

    def _declared(self, name: str, node: Node) -> Node:
        if not self._names.admits(self._objects.names, name):
            return NEVER
        matched = {pattern for pattern in self._patterns if self._names.matches(pattern, name)}
        for layer in self._objects.layers:
            node = both(node, layer.node(matched.__contains__, is_declared=name in layer.declared))
        needs = [at for at, need in enumerate(self._objects.needs) if self._names.is_needed(need, name)]
        self._satisfy(name, node, needs)
        return node

    def _satisfy(self, names: str | NameSet, node: Node, needs: list[int]) -> None:
        """Records every way in which a member of these names may satisfy some of the needs."""
        for subset in range(1, 1 << len(needs)):
            chosen = [need for at, need in enumerate(needs) if subset >> at & 1]
            value = node
            for need in chosen:
                value = both(value, self._objects.needs[need].value)
            if value != NEVER:
                self._satisfying.append((names, sum(1 << need for need in chosen), value))

    def _others(self) -> Iterator[tuple[NameSet, Node]]:
        objects, names = self._objects, self._names
        by_node: dict[tuple[Node, tuple[int, ...]], list[NameSet]] = {}
        splitters = [(pattern, names.matching(pattern)) for pattern in self._patterns]
        needed = [(at, names.needed(need)) for at, need in enumerate(objects.needs)]
        declared = (name for name, _ in objects.properties)
        for matched, part in names.partition(objects.names, declared, [*splitters, *needed]):
            is_matched = any(isinstance(one, str) for one in matched)
            node = objects.extra if is_matched or not self._is_closed else NEVER
            for layer in objects.layers:
                node = both(node, layer.node(matched.__contains__, is_declared=False))
            if node != NEVER:
                needs = tuple(sorted(one for one in matched if isinstance(one, int)))
                by_node.setdefault((node, needs), []).append(part)
        for (node, of_needs), parts in by_node.items():
            joined = names.union(parts)
            self._satisfy(joined, node, list(of_needs))
            yield joined, node
