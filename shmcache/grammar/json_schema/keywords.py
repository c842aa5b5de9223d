"""The keywords of one schema, each checked and typed when it is asked for.

Owns the shapes that keyword values must have. Must never know what they demand of an instance.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from shmcache.errors import SourceError
from shmcache.grammar.json_schema.document import Document
from shmcache.grammar.json_schema.resources import Place, pointer_token

Number = int | Decimal
"""An exact JSON number."""


_DEPENDENT = frozenset(("dependentSchemas", "dependencies"))


class Keywords:
    """Typed access to the keywords of ``place.schema``. A value of the wrong shape is a :class:`SourceError`."""

    __slots__ = ("_document", "place", "schema")

    def __init__(self, document: Document, place: Place) -> None:
        assert isinstance(place.schema, dict)
        self._document = document
        self.place = place
        self.schema = place.schema

    def __contains__(self, name: str) -> bool:
        return name in self.schema

    def has_any(self, names: frozenset[str]) -> bool:
        """Whether one of these keywords is there: most schemas have few, so what has none is not read."""
        return not names.isdisjoint(self.schema)

    def pointer(self, name: str, *inner: str | int) -> str:
        """The JSON pointer of a keyword, or of something under it."""
        pointer = f"{self.place.pointer}/{pointer_token(name)}"
        for one in inner:
            pointer += f"/{pointer_token(str(one))}"
        return pointer

    def malformed(self, name: str, expected: str) -> SourceError:
        """The error for a value that is not what the standard asks for."""
        return SourceError(f"the value of {name!r} must be {expected}", pointer=self.pointer(name))

    def count(self, name: str) -> int | None:
        """A non-negative integer."""
        value = self.number(name)
        if value is None:
            return None
        # Compared before it is written out: the exponent may be huge.
        if not 0 <= value < 10**18 or not is_integral(value):
            raise self.malformed(name, "a non-negative integer below 10**18")
        return int(value)

    def number(self, name: str) -> Number | None:
        """A number."""
        if name not in self.schema:
            return None
        value = exact_number(self.schema[name])
        if value is None:
            raise self.malformed(name, "a number")
        return value

    def text(self, name: str) -> str | None:
        """A string."""
        value = self.schema.get(name)
        if name in self.schema and not isinstance(value, str):
            raise self.malformed(name, "a string")
        return value

    def flag(self, name: str) -> bool:
        """A boolean, false when absent."""
        value = self.schema.get(name, False)
        if not isinstance(value, bool):
            raise self.malformed(name, "a boolean")
        return value

    def values(self, name: str) -> list[Any]:
        """An array of anything."""
        value = self.schema[name]
        if not isinstance(value, (list, tuple)):
            raise self.malformed(name, "an array")
        return list(value)

    def texts(self, name: str) -> tuple[str, ...]:
        """An array of strings, each once, in order; empty when absent."""
        if name not in self.schema:
            return ()
        value = self.values(name)
        if not all(isinstance(one, str) for one in value):
            raise self.malformed(name, "an array of strings")
        return tuple(dict.fromkeys(value))

    def child(self, name: str) -> int:
        """The id of the schema under ``name``."""
        return self._document.schema_id(self.schema[name], self.pointer(name), self.place.base, self.place.scope)

    def children(self, name: str) -> tuple[int, ...]:
        """The ids of the schemas in the array under ``name``."""
        return tuple(
            self._document.schema_id(one, self.pointer(name, at), self.place.base, self.place.scope)
            for at, one in enumerate(self.values(name))
        )

    def map(self, name: str) -> dict[str, Any]:
        """An object; empty when absent."""
        value = self.schema.get(name, {})
        if not isinstance(value, dict):
            raise self.malformed(name, "an object")
        return value

    def named_children(self, name: str) -> dict[str, int]:
        """The ids of the schemas in the object under ``name``, in order; empty when absent."""
        outer, base, scope = self.pointer(name), self.place.base, self.place.scope
        schema_id = self._document.schema_id
        return {
            inner: schema_id(schema, f"{outer}/{pointer_token(inner)}", base, scope)
            for inner, schema in self.map(name).items()
        }

    def dependent_children(self) -> tuple[tuple[str, int], ...]:
        """Names, and the schemas that objects with a member of that name satisfy."""
        if not self.has_any(_DEPENDENT):
            return ()
        listed = list(self.named_children("dependentSchemas").items())
        for name, value in self.map("dependencies").items():
            if not isinstance(value, (list, tuple)):
                pointer = self.pointer("dependencies", name)
                listed.append((name, self._document.schema_id(value, pointer, self.place.base, self.place.scope)))
        return tuple(listed)

    def referred(self, name: str) -> tuple[int, ...]:
        """The id of the schema that a reference leads to; none when it is absent."""
        reference = self.text(name)
        if reference is None:
            return ()
        resolve = self._document.resolve
        if name != "$ref":
            resolve = self._document.resolve_dynamic if name == "$dynamicRef" else self._document.resolve_recursive
        return (resolve(reference, self.place, self.pointer(name)),)


def references_of(draft: int) -> tuple[str, ...]:
    """The keywords that are references in a draft."""
    return ("$ref",) if draft <= 7 else ("$ref", "$dynamicRef", "$recursiveRef")


def exact_number(value: Any) -> Number | None:
    """The number as an int or a finite Decimal; None when ``value`` is not a number."""
    if isinstance(value, bool):
        return None
    if isinstance(value, float):
        value = Decimal(repr(value))
    if isinstance(value, Decimal) and not value.is_finite():
        return None
    return value if isinstance(value, (int, Decimal)) else None


def is_integral(value: Number) -> bool:
    """Whether the number is an integer, however it is spelt."""
    return isinstance(value, int) or value == value.to_integral_value()
