"""Does a text belong to a grammar, and where not, why?

Owns the walk over an instance byte by byte and what is said of its end. Must never decide by anything but the matcher.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np

from shmcache.matcher.bitmask import allocate_token_bitmask
from shmcache.matcher.compiled_grammar import CompiledGrammar
from shmcache.matcher.matcher import GrammarMatcher

EXCERPT_BYTES = 30
RANGES_SHOWN_MAX = 12


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one instance. ``offset`` is how many bytes were accepted; the rest says why not all.

    ``reason`` is ``"rejected"`` (the next byte may not come), ``"incomplete"`` (the text may not end here), or empty.
    ``line`` and ``column`` (1-based, in characters) and ``pointer`` (where in a JSON text) are of that offset.
    """

    is_accepted: bool
    offset: int
    reason: str
    line: int
    column: int
    pointer: str | None
    before: str
    after: str
    expected: tuple[int, ...]
    may_end: bool
    hint: str


def check_instance(grammar: CompiledGrammar, data: bytes) -> Verdict:
    """Tries the whole of ``data``; the grammar's vocabulary has token ``b`` for each byte ``b``.

    Raises :class:`LimitError` where the grammar is too ambiguous.
    """
    matcher = GrammarMatcher(grammar)
    offset = 0
    while offset < len(data) and matcher.accept_token(data[offset]):
        offset += 1
    may_end = matcher.is_completed()
    is_accepted = offset == len(data) and may_end
    head = data[:offset]
    text = head.decode("utf-8", "replace")
    return Verdict(
        is_accepted=is_accepted,
        offset=offset,
        reason="" if is_accepted else "incomplete" if offset == len(data) else "rejected",
        line=text.count("\n") + 1,
        column=len(text) - text.rfind("\n"),
        pointer=json_pointer(head),
        before=_shown(head[-EXCERPT_BYTES:]),
        after=_shown(data[offset : offset + EXCERPT_BYTES]),
        expected=_expected(grammar, matcher),
        may_end=may_end,
        hint="" if is_accepted else _hint(grammar, data),
    )


def _expected(grammar: CompiledGrammar, matcher: GrammarMatcher) -> tuple[int, ...]:
    bitmask = allocate_token_bitmask(1, grammar.vocabulary.width)
    matcher.fill_next_token_bitmask(bitmask)
    bits = np.unpackbits(bitmask.view(np.uint8), bitorder="little")
    return tuple(np.flatnonzero(bits[:256]).tolist())


def _hint(grammar: CompiledGrammar, data: bytes) -> str:
    """Whether another spelling of the same JSON value is accepted."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return ""
    spellings = {
        "compact separators": {"separators": (",", ":")},
        "the separators of json.dumps": {},
        "indent=2": {"indent": 2},
    }
    for name, options in spellings.items():
        for ensure_ascii in (False, True):
            text = json.dumps(value, ensure_ascii=ensure_ascii, **options)  # type: ignore[arg-type]
            matcher = GrammarMatcher(grammar)
            if text.encode("utf-8", "surrogatepass") != data and matcher.accept_string(text) and matcher.is_completed():
                return f"the value is accepted when it is written with {name}: only its spelling is not"
    return ""


def _shown(data: bytes) -> str:
    text = data.decode("utf-8", "backslashreplace")
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def expected_text(expected: tuple[int, ...], may_end: bool) -> str:
    """The bytes that may come next, as ranges of characters."""
    ranges: list[tuple[int, int]] = []
    for byte in expected:
        if ranges and ranges[-1][1] == byte - 1:
            ranges[-1] = ranges[-1][0], byte
        else:
            ranges.append((byte, byte))
    parts = [_range_text(low, high) for low, high in ranges[:RANGES_SHOWN_MAX]]
    if len(ranges) > RANGES_SHOWN_MAX:
        parts.append(f"{len(ranges) - RANGES_SHOWN_MAX} more ranges")
    if may_end:
        parts.append("the end")
    return " ".join(parts) or "nothing"


def _range_text(low: int, high: int) -> str:
    return _byte_text(low) if low == high else f"{_byte_text(low)}–{_byte_text(high)}"


def _byte_text(byte: int) -> str:
    names = {0x20: "space", 0x0A: "\\n", 0x0D: "\\r", 0x09: "\\t"}
    return names.get(byte) or (chr(byte) if 0x21 <= byte < 0x7F else f"0x{byte:02X}")


def json_pointer(head: bytes) -> str | None:
    """Where in a JSON document a text that begins with ``head`` goes on; None when it does not begin one.

    A walk over the tokens of JSON and no more: whatever the grammar says, it tells a reader which value is meant.
    """
    path: list[str | int] = []
    text = head.decode("utf-8", "ignore").lstrip()
    if not text or text[0] not in "{[":
        return "" if not text or text[0] in '"-0123456789tfn' else None
    position = 0
    wants_name = False
    while position < len(text):
        character = text[position]
        position += 1
        if character == "{":
            path.append("")
            wants_name = True
        elif character == "[":
            path.append(0)
        elif character in "}]":
            if not path:
                return None
            path.pop()
        elif character == "," and path:
            wants_name = isinstance(path[-1], str)
            if isinstance(path[-1], int):
                path[-1] += 1
        elif character == '"':
            end = position
            while end < len(text) and text[end] != '"':
                end += 2 if text[end] == "\\" else 1
            if wants_name and path and end < len(text):
                path[-1] = _name(text[position - 1 : end + 1])
                wants_name = False
            position = end + 1
    # Within an object and before a name: the object itself is meant.
    if wants_name and path and isinstance(path[-1], str):
        path.pop()
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)


def _name(text: str) -> str:
    try:
        return str(json.loads(text))
    except ValueError:
        return text[1:-1]
