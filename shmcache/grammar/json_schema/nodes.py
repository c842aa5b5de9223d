"""Nodes: what a place in an instance must satisfy, as a conjunction of schemas.

Owns the value and its conjunction. A node is a sorted tuple of schema ids, all of which apply; the empty tuple admits
everything. As a document has finitely many schemas it has finitely many nodes, so working through the nodes that a root
leads to ends, however the schemas recurse.
"""

from __future__ import annotations

from enum import IntEnum

from shmcache.grammar.json_schema.document import FALSE, TRUE

Node = tuple[int, ...]

ANYTHING: Node = ()
NEVER: Node = (FALSE,)


def node_of(schema_id: int) -> Node:
    """The node of one schema."""
    return ANYTHING if schema_id == TRUE else (schema_id,)


def both(first: Node, second: Node) -> Node:
    """What satisfies both nodes."""
    if not first or first == second:
        return second
    if not second:
        return first
    if FALSE in first or FALSE in second:
        return NEVER
    return tuple(sorted({*first, *second}))


class Openness(IntEnum):
    """What a schema says of the members of a container that it does not name."""

    UNSPOKEN = 0
    """The schema does not speak of what is in such containers at all; they are free."""
    SILENT = 1
    """It speaks of what is in the container, not of further members: strict mode closes it."""
    STATED = 2
    """It states what further members must satisfy."""
