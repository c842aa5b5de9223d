"""A slow, obvious recogniser of structural tags, straight from what each format means.

Owns the answer to "is this text one that the format admits", for the formats of text. Must never share code with the
front end under test.

The heart is ``ends``: all the places where a format that begins at ``start`` may end. Free text is tried at every
length; what ends a tag around it is handed down, as are the places where it stands last in the tag.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from typing import Any

Format = dict[str, Any]
Places = frozenset[int]
Outer = tuple[tuple[str, ...], bool]
"""The ends of the tag around, and whether the format comes last in it."""

NOTHING_AROUND: Outer = ((), True)


def admits(tag_format: Format, text: str) -> bool:
    """Whether the format admits the whole text."""
    return len(text) in _Reader(text).ends(tag_format, 0, NOTHING_AROUND)


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.known: dict[tuple[str, int, Outer], Places] = {}

    def ends(self, one: Format, start: int, outer: Outer) -> Places:
        """Where the format may end."""
        key = (json.dumps(one, sort_keys=True), start, outer)
        if key not in self.known:
            self.known[key] = self._ends(one, start, outer)
        return self.known[key]

    def _ends(self, one: Format, start: int, outer: Outer) -> Places:
        inside = (outer[0], False)
        match one["type"]:
            case "const_string":
                return self._literal(one["value"], start)
            case "regex":
                pattern = re.compile(one["pattern"])
                return frozenset(at for at in self._places(start) if pattern.fullmatch(self.text, start, at))
            case "any_text":
                return self._free(start, one.get("excludes", ()), one.get("max_chars"), outer)
            case "sequence":
                return self._sequence(one["elements"], start, outer)
            case "or":
                return frozenset().union(*(self.ends(element, start, outer) for element in one["elements"]))
            case "optional":
                return self.ends(one["content"], start, outer) | {start}
            case "star" | "plus" | "repeat":
                bounds = {"star": (0, None), "plus": (1, None), "repeat": (one.get("min", 0), one.get("max"))}
                minimum, maximum = bounds[one["type"]]
                limit = None if maximum in (None, -1) else maximum
                return self._repeated(self._reading(one["content"], inside), start, minimum, limit)
            case "tag":
                return self._tag(one, start, one["begin"])
            case "triggered_tags":
                return self._triggered(one, start, outer[0])
            case "tags_with_separator":
                return self._separated(one, start)
            case "dispatch":
                return self._dispatched(
                    [(trigger, self._reading(content, inside)) for trigger, content in one["rules"]],
                    start,
                    tuple(one.get("excludes", ())),
                    is_loop=one.get("loop", True),
                )
        raise AssertionError(one["type"])

    def _reading(self, one: Format, outer: Outer) -> Callable[[int], Places]:
        return lambda place: self.ends(one, place, outer)

    def _sequence(self, elements: list[Format], start: int, outer: Outer) -> Places:
        places: Places = frozenset((start,))
        for element in elements[:-1]:
            places = self._all(places, self._reading(element, (outer[0], False)))
        return self._all(places, self._reading(elements[-1], outer))

    def _places(self, start: int) -> range:
        return range(start, len(self.text) + 1)

    def _all(self, places: Iterable[int], step: Callable[[int], Places]) -> Places:
        return frozenset().union(*(step(place) for place in places))

    def _literal(self, value: str, start: int) -> Places:
        return frozenset((start + len(value),)) if self.text.startswith(value, start) else frozenset()

    def _repeated(self, step: Callable[[int], Places], start: int, minimum: int, maximum: int | None) -> Places:
        reached: dict[int, Places] = {0: frozenset((start,))}
        found = set(reached[0]) if not minimum else set()
        for count in range(1, (len(self.text) + minimum + 2 if maximum is None else maximum) + 1):
            reached[count] = self._all(reached[count - 1], step)
            if count >= minimum:
                found |= reached[count]
        return frozenset(found)

    def _free(self, start: int, excludes: Iterable[str], characters_max: int | None, outer: Outer) -> Places:
        ends, is_last = outer
        found = set()
        for at in self._places(start):
            text = self.text[start:at]
            if characters_max is not None and len(text) > characters_max:
                continue
            if any(word and word in text for word in (*excludes, *ends)):
                continue
            if (
                is_last
                and ends
                and "" not in ends
                and not any(_first_end(text + end, ends) == len(text) for end in ends)
            ):
                continue
            found.add(at)
        return frozenset(found)

    def _tag(self, one: Format, start: int, begin: str) -> Places:
        """A tag of which ``begin`` is what is left of its beginning."""
        ends = tuple([one["end"]] if isinstance(one["end"], str) else one["end"])
        places = self._all(self._literal(begin, start), lambda place: self.ends(one["content"], place, (ends, True)))
        return self._all(places, lambda place: frozenset().union(*(self._literal(end, place) for end in ends)))

    def _separated(self, one: Format, start: int) -> Places:
        def tag(place: int) -> Places:
            return self._all(
                range(len(one["tags"])), lambda at: self._tag(one["tags"][at], place, one["tags"][at]["begin"])
            )

        def further(place: int) -> Places:
            return self._all(self._literal(one["separator"], place), tag)

        places = tag(start)
        if not one.get("stop_after_first"):
            places = self._all(places, lambda place: self._repeated(further, place, 0, None))
        return places if one.get("at_least_one") else places | {start}

    def _triggered(self, one: Format, start: int, ends: tuple[str, ...]) -> Places:
        def behind(tag: Format, trigger: str) -> Callable[[int], Places]:
            return lambda place: self._tag(tag, place, tag["begin"][len(trigger) :])

        rules = [
            (trigger, behind(tag, trigger))
            for trigger in one["triggers"]
            for tag in one["tags"]
            if tag["begin"].startswith(trigger)
        ]
        excludes = (*one.get("excludes", ()), *(end for end in ends if end))

        def free(place: int, *, is_loop: bool) -> Places:
            return self._dispatched(rules, place, excludes, is_loop=is_loop)

        once = bool(one.get("stop_after_first"))
        if not one.get("at_least_one"):
            return free(start, is_loop=not once)
        first = self._all(range(len(one["tags"])), lambda at: behind(one["tags"][at], "")(start))
        return first if once else self._all(first, lambda place: free(place, is_loop=True))

    def _dispatched(
        self,
        rules: list[tuple[str, Callable[[int], Places]]],
        start: int,
        excludes: tuple[str, ...],
        *,
        is_loop: bool,
    ) -> Places:
        """Stretches of free text, each but the last up to a trigger and what follows it."""
        found: set[int] = set()
        begun: set[int] = set()
        pending = [start]
        while pending:
            here = pending.pop()
            if here in begun:
                continue
            begun.add(here)
            for at in self._places(here):
                text = self.text[here:at]
                if any(word in text for word in excludes):
                    break
                met = [len(text) - len(trigger) for trigger, _ in rules if text.endswith(trigger)]
                earlier = [text.find(trigger) for trigger, _ in rules if trigger in text]
                if not earlier:
                    found.add(at)
                for trigger, content in rules:
                    if text.endswith(trigger) and len(text) - len(trigger) == min(met) == min(earlier):
                        behind = content(at)
                        found |= set() if is_loop else behind
                        pending += behind if is_loop else ()
        return frozenset(found)


def _first_end(text: str, ends: Iterable[str]) -> int:
    """Where the first of the ends begins in the text."""
    return min(place for end in ends if (place := text.find(end)) >= 0)
