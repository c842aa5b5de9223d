"""Who is right where two engines disagree: a third reading of the source decides.

Owns the completion of a text in one engine and the verdict on the whole text. Must never take an engine's word.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from enum import Enum
from random import Random
from typing import Any

import jsonschema

from shmcache.grammar.ir import Grammar
from shmcache.vocabulary.vocabulary import Vocabulary
from tests.differential.engines import Request
from tests.reference.grammar_recogniser import recognises
from tests.survey.survey import declared_order
from tests.survey.walker import Walker

STEPS_MAX = 300
CHANCES = (0.0, 0.1, 0.3, 1.0)
"""How often the next token is any that is allowed, in one try after the other."""
SEARCHED_MAX = 20_000

CLOSING = (b"}", b"]", b":", b",", b"0", b"1", b"5", b"-", b"n", b"u", b"l", b"t", b"r", b"e", b"f", b'"', b"[", b"{")
"""Outside strings: what brings a value to its end soonest comes first."""
WHITE = b" \t\r\n"


class Verdict(Enum):
    """Why two masks differ in a token, or that this is not known."""

    THEIRS_WRONG = "theirs: admits what is invalid"
    THEIRS_NARROW = "theirs: refuses what is valid"
    SPELLING = "choice: ours has fewer spellings"
    ORDER = "choice: ours has an order of members"
    FORMAT = "choice: ours enforces formats"
    NAMES = "choice: the same name twice"
    UNDECIDED = "undecided: no whole text was found"
    OURS_WRONG = "OURS: admits what is invalid"
    OURS_NARROW = "OURS: refuses what is valid"

    @property
    def is_ours(self) -> bool:
        """Whether it is a mistake of this package."""
        return self in (Verdict.OURS_WRONG, Verdict.OURS_NARROW)


def is_inside_string(text: bytes) -> bool:
    """Whether the text ends inside a JSON string."""
    inside = escaped = False
    for byte in text:
        if escaped:
            escaped = False
        elif inside and byte == 0x5C:
            escaped = True
        elif byte == 0x22:
            inside = not inside
    return inside


def completed(request: Request, vocabulary: Vocabulary, text: bytes, seed: int) -> bytes | None:
    """A whole text that begins with ``text``, where ``request`` is behind it; None where none was found.

    It closes JSON values as soon as it can, and other texts by chance.
    """
    singles = {vocabulary.token_bytes(token): token for token in reversed(vocabulary.text_token_ids().tolist())}
    stop = vocabulary.stop_token_ids[0]
    for attempt, chance in enumerate(CHANCES):
        rng = Random(seed * len(CHANCES) + attempt)
        here, whole = request.fork(), text
        for _ in range(STEPS_MAX):
            mask = here.mask()
            if stop in mask:
                return whole
            token = _next(mask - {stop}, whole, singles, vocabulary, rng, chance)
            if token is None or not here.accept(token):
                break
            whole += vocabulary.token_bytes(token)
    return None


def shortest_completion(walker: Walker, text: bytes) -> bytes | None:
    """The shortest whole text of ours that begins with ``text``; None where the search takes too long."""
    start = walker.advance(walker.start, text)
    behind: dict[int, bytes] = {start: b""}
    pending = deque(behind)
    while pending and len(behind) < SEARCHED_MAX:
        here = pending.popleft()
        if walker.is_whole(here):
            return text + behind[here]
        for byte in walker.next_bytes(here):
            following = walker.advance(here, bytes([byte]))
            if following not in behind:
                behind[following] = behind[here] + bytes([byte])
                pending.append(following)
    return None


def _next(
    mask: frozenset[int], text: bytes, singles: dict[bytes, int], vocabulary: Vocabulary, rng: Random, chance: float
) -> int | None:
    if not mask:
        return None
    if rng.random() >= chance:
        preferred = (b'"',) if is_inside_string(text) else CLOSING
        for one in preferred:
            if singles.get(one) in mask:
                return singles[one]
    plain = [token for token in mask if vocabulary.token_bytes(token).isalnum()]
    dark = [token for token in mask if vocabulary.token_bytes(token).strip(WHITE)]
    return rng.choice(sorted((plain if rng.random() < 0.6 else dark) or dark or mask))


class Judge(ABC):
    """For one source: whether a whole text is right, and what that says of whoever admits it alone."""

    def __init__(self, walker: Walker) -> None:
        self.walker = walker

    @abstractmethod
    def is_valid(self, text: bytes) -> bool:
        """Whether the source admits the whole text, by somebody else's reading of it."""

    def why_ours_refuses(self, text: bytes) -> Verdict:
        """Of a text that is right and that ours does not admit."""
        return Verdict.OURS_NARROW

    def is_hopeless(self, text: bytes) -> bool:
        """Whether it is plain that no right text begins like this."""
        return False

    def verdict(self, text: bytes | None, *, is_ours: bool) -> Verdict:
        """What a whole text says that ours alone (``is_ours``) or theirs alone lets a request go on to."""
        if text is None:
            return Verdict.UNDECIDED
        is_valid = self.is_valid(text)
        if is_ours:
            return Verdict.THEIRS_NARROW if is_valid else Verdict.OURS_WRONG
        return self.why_ours_refuses(text) if is_valid else Verdict.THEIRS_WRONG


class RegexJudge(Judge):
    """Python's ``re`` on the pattern with the meaning of ECMA-262."""

    def __init__(self, pattern: str, walker: Walker) -> None:
        super().__init__(walker)
        self._pattern = re.compile(python_pattern(pattern), re.ASCII)

    def is_valid(self, text: bytes) -> bool:
        try:
            return self._pattern.fullmatch(text.decode()) is not None
        except UnicodeDecodeError:
            return False


class GrammarJudge(Judge):
    """The recogniser that goes through the rules as they are written."""

    def __init__(self, grammar: Grammar, walker: Walker) -> None:
        super().__init__(walker)
        self._grammar = grammar

    def is_valid(self, text: bytes) -> bool:
        return recognises(self._grammar, text)


class SchemaJudge(Judge):
    """``jsonschema``, with exact numbers and the patterns of ECMA-262."""

    def __init__(self, schema: Any, walker: Walker) -> None:
        super().__init__(walker)
        self.schema = schema
        exact = json.loads(json.dumps(schema), parse_float=Decimal)
        kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
        checker = kind.TYPE_CHECKER.redefine("integer", lambda _checker, value: _is_integer(value))
        checker = checker.redefine("number", lambda _checker, value: _is_number(value))
        # Drafts are told apart by what is present, so this keyword counts in all of them.
        also = {"pattern": _pattern, "dependencies": jsonschema.Draft7Validator.VALIDATORS["dependencies"]}
        self.validator = jsonschema.validators.extend(kind, also, type_checker=checker)(exact)
        self.has_formats = '"format"' in json.dumps(schema)

    def is_valid(self, text: bytes) -> bool:
        try:
            decoded = text.decode()
            value = json.loads(decoded, parse_float=Decimal, parse_constant=_no_constant)
            json.dumps(json.loads(decoded), ensure_ascii=False).encode()
        except (ValueError, RecursionError):
            return False
        try:
            return bool(self.validator.is_valid(value))
        except InvalidOperation:
            return False

    def is_hopeless(self, text: bytes) -> bool:
        return any(byte < 0x20 and is_inside_string(text[:at]) for at, byte in enumerate(text))

    def why_ours_refuses(self, text: bytes) -> Verdict:
        if _has_name_twice(text):
            return Verdict.NAMES
        value = shortest(json.loads(text))
        if any(self.walker.accepts(spelt) for spelt in _spellings(value)):
            return Verdict.SPELLING
        if self.walker.accepts_in_some_order(value, declared_order(self.schema)):
            return Verdict.ORDER
        return Verdict.FORMAT if self.has_formats else Verdict.OURS_NARROW


_SPACE = r"\t\n\v\f\r \xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
_OF_ECMA = {
    "\\d": "[0-9]",
    "\\D": "[^0-9]",
    "\\s": f"[{_SPACE}]",
    "\\S": f"[^{_SPACE}]",
    "$": "\\Z",
    ".": r"[^\n\r\u2028\u2029]",
}
_OF_ECMA_IN_CLASS = {"\\d": "0-9", "\\s": _SPACE}
_PATTERN_PARTS = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]|\\.|[$.]", re.DOTALL)


def _pattern(_validator: Any, pattern: str, instance: Any, _schema: Any) -> Iterator[Exception]:
    """The keyword ``pattern`` with the meaning of ECMA-262 where that of Python differs."""
    if isinstance(instance, str) and not re.search(python_pattern(pattern), instance, re.ASCII):
        yield jsonschema.ValidationError(f"{instance!r} does not match {pattern!r}")


def python_pattern(pattern: str) -> str:
    """An expression of ECMA-262 for ``re``, as far as digits, white space, lines and the end are concerned."""

    def part(found: re.Match[str]) -> str:
        text = found[0]
        if not text.startswith("["):
            return _OF_ECMA.get(text, text)
        return re.sub(r"\\.", lambda inner: _OF_ECMA_IN_CLASS.get(inner[0], inner[0]), text, flags=re.DOTALL)

    return _PATTERN_PARTS.sub(part, pattern)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)


def _is_integer(value: Any) -> bool:
    return _is_number(value) and value == int(value)


def _has_name_twice(text: bytes) -> bool:
    twice = False

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal twice
        twice = twice or len({name for name, _ in pairs}) < len(pairs)
        return dict(pairs)

    json.loads(text, object_pairs_hook=members)
    return twice


def shortest(value: Any) -> Any:
    """The value with integers for floats that are whole."""
    if isinstance(value, float):
        return int(value) if abs(value) < 1e300 and value == int(value) else value
    if isinstance(value, list):
        return [shortest(one) for one in value]
    if isinstance(value, dict):
        return {name: shortest(one) for name, one in value.items()}
    return value


def _spellings(value: Any) -> Iterator[bytes]:
    yield json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
    yield json.dumps(value).encode()
