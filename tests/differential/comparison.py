"""Two engines side by side along the same texts: every token that only one of them allows is looked into.

Owns the walk and the count of what was found. Must never decide who is right: the judge does.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from shmcache.errors import LimitError
from shmcache.grammar.key import Source
from shmcache.limits import Budget
from shmcache.vocabulary.vocabulary import Vocabulary
from tests.differential.engines import Engine, Mask, OurRequest, Ours, RefusedError, Request
from tests.differential.judge import (
    GrammarJudge,
    Judge,
    RegexJudge,
    SchemaJudge,
    Verdict,
    completed,
    is_inside_string,
    shortest_completion,
)
from tests.survey.survey import texts
from tests.survey.walker import Walker

TEXT_BYTES_MAX = 400
WALK_STEPS_MAX = 25
ENDS = {b'"', b'",', b'":', b'"}', b"}", b"]", b",", b":", b"1", b"a", b"{", b'{"'}

LOOKED_INTO_MAX = 40
"""Differing tokens of one schema that are looked into."""

PER_TOKEN = 2
"""Differences in one token and on one side, within strings and between them, that are looked into."""

PER_STEP = 3
"""Differing tokens of one step and one side that are looked into."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A token that one engine allows behind a text, the whole text that it leads to there, and what that shows."""

    verdict: Verdict
    text: bytes
    token: bytes
    whole: bytes | None

    def describe(self) -> str:
        """On one line."""
        whole = "no whole text" if self.whole is None else repr(self.whole[-300:])
        return f"{self.verdict.value}: behind {self.text[-60:]!r} the token {self.token!r}: {whole}"


@dataclass(slots=True)
class Report:
    """What a comparison found."""

    steps: int = 0
    agreeing: int = 0
    refused: dict[str, str] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    def counts(self) -> Counter[Verdict]:
        """Findings by verdict."""
        return Counter(finding.verdict for finding in self.findings)


def tokens_of(text: bytes, vocabulary: Vocabulary, rng: Random) -> list[int]:
    """The text cut into tokens at random, longer ones more often."""
    by_bytes: dict[bytes, list[int]] = {}
    for token in vocabulary.text_token_ids().tolist():
        by_bytes.setdefault(vocabulary.token_bytes(token), []).append(token)
    found = []
    at = 0
    while at < len(text):
        lengths = [length for length in range(1, 12) if text[at : at + length] in by_bytes and at + length <= len(text)]
        length = rng.choice([lengths[-1], *lengths])
        found.append(rng.choice(by_bytes[text[at : at + length]]))
        at += length
    return found


def compare_schema(
    schema: Any, instances: Iterable[Any], ours: Ours, theirs: Engine, *, seed: int = 0, layout: str = "flexible"
) -> Report:
    """Walks both along the instances' texts for as long as both allow them, and looks into the differences."""
    report = Report()
    pair = _schema_pair(schema, ours, theirs, layout, report)
    if pair is not None:
        walk = _Walk(report, pair[2], ours.vocabulary, Random(seed))
        for instance in instances:
            for text in sorted(texts(instance)):
                walk.along(text[:TEXT_BYTES_MAX], pair[0].fork(), pair[1].fork())
    return report


def wander_schema(
    schema: Any, walks: int, ours: Ours, theirs: Engine, *, seed: int = 0, layout: str = "flexible"
) -> Report:
    """The same along random texts that both allow."""
    report = Report()
    return _wander(_schema_pair(schema, ours, theirs, layout, report), walks, ours, seed, report)


def wander_regex(pattern: str, walks: int, ours: Ours, theirs: Engine, *, seed: int = 0) -> Report:
    """The same for a regular expression."""
    report = Report()
    pair = _pair(
        lambda: ours.regex(pattern),
        lambda: theirs.regex(pattern),
        lambda walker: RegexJudge(pattern, walker),
        theirs.name,
        report,
    )
    return _wander(pair, walks, ours, seed, report)


def wander_ebnf(text: str, walks: int, ours: Ours, theirs: Engine, *, seed: int = 0) -> Report:
    """The same for a grammar."""
    report = Report()
    pair = _pair(
        lambda: ours.ebnf(text),
        lambda: theirs.ebnf(text),
        lambda walker: GrammarJudge(Source.ebnf(text).grammar(Budget()), walker),
        theirs.name,
        report,
    )
    return _wander(pair, walks, ours, seed, report)


_Pair = tuple[OurRequest, Request, Judge]


def _wander(pair: _Pair | None, walks: int, ours: Ours, seed: int, report: Report) -> Report:
    if pair is not None:
        walk = _Walk(report, pair[2], ours.vocabulary, Random(seed))
        for _ in range(walks):
            walk.at_random(pair[0].fork(), pair[1].fork())
    return report


def _schema_pair(schema: Any, ours: Ours, theirs: Engine, layout: str, report: Report) -> _Pair | None:
    return _pair(
        lambda: ours.schema(schema, layout),
        lambda: theirs.schema(schema, layout),
        lambda walker: SchemaJudge(schema, walker),
        theirs.name,
        report,
    )


def _pair(
    ours: Callable[[], OurRequest],
    theirs: Callable[[], Request],
    judge: Callable[[Walker], Judge],
    name: str,
    report: Report,
) -> _Pair | None:
    """Both requests, and the judge; None, and a note, where one of them refuses the source."""
    try:
        mine = ours()
    except RefusedError as error:
        report.refused["ours"] = str(error)
        return None
    try:
        return mine, theirs(), judge(Walker(mine.automaton))
    except RefusedError as error:
        report.refused[name] = str(error)
    except re.error as error:
        report.refused["judge"] = f"a pattern that Python does not know: {error}"
    return None


@dataclass(slots=True)
class _Walk:
    report: Report
    judge: Judge
    vocabulary: Vocabulary
    rng: Random
    seen: Counter[tuple[bool, bool, bytes]] = field(default_factory=Counter)

    def at_random(self, ours: Request, theirs: Request) -> None:
        """Tokens that both allow, those more often that bring a value to its end."""
        taken = b""
        for _ in range(WALK_STEPS_MAX):
            both = self._compare(taken, ours, theirs) - set(self.vocabulary.stop_token_ids)
            # Behind a backslash engines differ in what may be escaped.
            ways = sorted(token for token in both if b"\\" not in self.vocabulary.token_bytes(token))
            if not ways:
                return
            ends = [token for token in ways if self.vocabulary.token_bytes(token) in ENDS]
            token = self.rng.choice(ends if ends and self.rng.random() < 0.5 else ways)
            try:
                assert ours.accept(token)
            except LimitError:
                return
            assert theirs.accept(token)
            taken += self.vocabulary.token_bytes(token)

    def along(self, text: bytes, ours: Request, theirs: Request) -> None:
        taken = b""
        for token in [*tokens_of(text, self.vocabulary, self.rng), None]:
            if token not in self._compare(taken, ours, theirs):
                return
            assert token is not None
            assert ours.accept(token)
            assert theirs.accept(token)
            taken += self.vocabulary.token_bytes(token)

    def _compare(self, taken: bytes, ours: Request, theirs: Request) -> Mask:
        """What both allow here."""
        mine, other = ours.mask(), theirs.mask()
        self.report.steps += 1
        self.report.agreeing += mine == other
        self._look_into(taken, sorted(mine - other), ours, is_ours=True)
        self._look_into(taken, sorted(other - mine), theirs, is_ours=False)
        return mine & other

    def _look_into(self, taken: bytes, tokens: list[int], request: Request, *, is_ours: bool) -> None:
        for token in self.rng.sample(tokens, min(PER_STEP, len(tokens))):
            spelt = b"" if token in self.vocabulary.stop_token_ids else self.vocabulary.token_bytes(token)
            # The same token again in strings, or again between them, hardly teaches anything.
            key = (is_ours, is_inside_string(taken), spelt)
            if self.seen[key] >= PER_TOKEN or self.seen.total() >= LOOKED_INTO_MAX:
                continue
            self.seen[key] += 1
            self.report.findings.append(self._finding(taken, token, spelt, request, is_ours=is_ours))

    def _finding(self, taken: bytes, token: int, spelt: bytes, request: Request, *, is_ours: bool) -> Finding:
        whole: bytes | None = taken + spelt
        if spelt and not self.judge.is_hopeless(taken + spelt):
            here = request.fork()
            assert here.accept(token), "a bit was set for a token that is not accepted"
            whole = completed(here, self.vocabulary, taken + spelt, self.seen.total())
            if whole is None and is_ours:
                whole = shortest_completion(self.judge.walker, taken + spelt)
        return Finding(self.judge.verdict(whole, is_ours=is_ours), taken, spelt, whole)
