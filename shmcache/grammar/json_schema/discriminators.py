"""What tells the branches of a choice apart at a glance: members that must be there, and whose values are constants.

Owns the finding and the comparing of such members. Must never know which keyword makes the choice.

That two branches have no value in common is else found by exploring both together, which for a choice of hundreds of
tagged objects takes longer than all the rest.
"""

from __future__ import annotations

from shmcache.grammar.json_schema.document import Document
from shmcache.grammar.json_schema.nodes import Node
from shmcache.grammar.json_schema.shapes import Shape

Discriminators = dict[str, frozenset[str]]
"""By name of a required member, the strings that it may be."""


def discriminators(shape: Shape, document: Document) -> Discriminators:
    """Those of the values of a shape; none where it admits values other than objects of one kind."""
    if shape.null or shape.booleans or shape.numbers or shape.strings or shape.arrays or len(shape.objects) != 1:
        return {}
    (record,) = shape.objects
    values = dict(record.properties)
    found = ((name, _constants(values.get(name, ()), document)) for name in record.required)
    return {name: constants for name, constants in found if constants is not None}


def are_apart(first: Discriminators, second: Discriminators) -> bool:
    """Whether it is plain that nothing has both."""
    return any(name in second and constants.isdisjoint(second[name]) for name, constants in first.items())


def _constants(node: Node, document: Document) -> frozenset[str] | None:
    """The strings that one of the schemas of a node lists; None where none does, or not strings only."""
    for schema_id in node:
        schema = document.place(schema_id).schema
        if not isinstance(schema, dict) or "$ref" in schema:  # beside which older drafts ignore the others
            continue
        listed = [schema["const"]] if "const" in schema else schema.get("enum")
        if isinstance(listed, (list, tuple)) and all(isinstance(one, str) for one in listed):
            return frozenset(listed)
    return None
