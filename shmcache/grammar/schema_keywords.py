"""Where in a JSON Schema, or in a structural tag, other schemas stand.

Owns the table of keywords that hold schemas and the set of those that only annotate. Must never know what any keyword
demands of an instance. The key of a source depends on this module, so it stays light.
"""

from __future__ import annotations

ANNOTATIONS = frozenset(
    ("$comment", "default", "deprecated", "description", "examples", "readOnly", "title", "writeOnly")
)
"""Keywords that constrain nothing and do not enter the key."""

# What stands under a keyword.
DATA = 0
"""No schema."""
SCHEMA = 1
"""A schema; under ``items`` and within ``dependencies`` perhaps a list."""
SCHEMAS = 2
"""A list of schemas."""
NAMED_SCHEMAS = 3
"""A map of names to schemas whose order may matter to the grammar."""
SORTED_SCHEMAS = 4
"""A map of names to schemas whose order never matters."""
ANNOTATION = 5
"""Nothing that constrains."""
TAG = 6
"""A structural tag, or a format or list within one."""

TAG_SCHEMAS = ("json_schema", "schema")
"""The members of a structural tag's formats that hold schemas; none holds other data with names of its own."""

UNDER_KEYWORD = {
    **dict.fromkeys(ANNOTATIONS, ANNOTATION),
    **dict.fromkeys(("additionalProperties", "additionalItems", "contains", "contentSchema", "else", "if"), SCHEMA),
    **dict.fromkeys(("items", "not", "propertyNames", "then"), SCHEMA),
    **dict.fromkeys(("unevaluatedItems", "unevaluatedProperties"), SCHEMA),
    **dict.fromkeys(("allOf", "anyOf", "oneOf", "prefixItems"), SCHEMAS),
    **dict.fromkeys(("dependencies", "dependentSchemas", "patternProperties", "properties"), NAMED_SCHEMAS),
    **dict.fromkeys(("$defs", "definitions"), SORTED_SCHEMAS),
}
"""Keyword → one of the above; a keyword that is not here holds data."""
