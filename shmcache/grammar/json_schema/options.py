"""How a JSON Schema is to be read and its instances spelt.

Owns the options value. Must never know a schema.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class JsonSchemaOptions:
    """The options of a JSON Schema source; :meth:`shmcache.grammar.key.Source.json_schema` has checked them.

    any_whitespace: whitespace is free wherever JSON allows it inside the value; ``indent`` and ``separators`` are then
        not looked at. Otherwise the layout is exactly that of ``json.dumps(value, indent=…, separators=…)``.
    max_whitespace_cnt: the longest run of free whitespace, in characters; None: no bound.
    strict_mode: objects and arrays whose schema does not say otherwise admit no members beyond those it names.
    canonical_numbers: integers have their shortest spelling only.
    any_order: the members of an object come in any order, not in the declared one.
    on_unsupported: ``"error"`` or ``"ignore"``; ignored keywords are recorded as warnings.
    """

    any_whitespace: bool = True
    indent: int | None = None
    separators: tuple[str, str] | None = None
    strict_mode: bool = True
    max_whitespace_cnt: int | None = None
    canonical_numbers: bool = True
    any_order: bool = False
    on_unsupported: str = "error"
