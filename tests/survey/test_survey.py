"""A sample of the survey: no invalid instance is accepted, no valid one rejected, and most schemas pass.

The whole of it is ``python -m tests.survey``. Without the collections, which are no part of the checkout, skipped.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from shmcache.automaton.build import build_automaton
from shmcache.grammar.key import Source
from shmcache.limits import Budget
from tests.survey.survey import (
    MASKBENCH,
    ORDER,
    PASS,
    REFUSED,
    TEST_SUITE,
    WRONG,
    cases,
    is_known_exception,
    judge,
    summary,
)
from tests.survey.walker import Walker

PASSING_MIN = {MASKBENCH: 0.9, TEST_SUITE: 0.8}


@pytest.mark.parametrize(("path", "every"), [(MASKBENCH, 6), (TEST_SUITE, 4)])
def test_a_sample_has_no_wrong_answers(path: Path, every: int) -> None:
    if not path.exists():
        pytest.skip(f"the collection {path.name} is not beside the checkout")
    chosen = [case for at, case in enumerate(cases(path)) if at % every == 0]
    verdicts = [judge(case, is_known_exception, seconds_max=4.0) for case in chosen]
    counts = Counter(verdict.kind for verdict in verdicts)
    assert counts[WRONG] == 0, summary(verdicts)
    assert counts[PASS] >= PASSING_MIN[path] * len(verdicts), summary(verdicts)


def case_of(schema: Any, *tests: tuple[Any, bool]) -> dict[str, Any]:
    return {"id": "made up", "schema": schema, "tests": [{"data": data, "valid": valid} for data, valid in tests]}


TWO: dict[str, Any] = {"properties": {"a": {"type": "object", "properties": {"x": {}, "y": {}}}, "b": {}}}


@pytest.mark.parametrize(
    ("case", "kind"),
    [
        (case_of({"type": "integer"}, (1, True), ("a", False)), PASS),
        (case_of({"type": "integer"}, (1, False)), WRONG),
        (case_of({"type": "integer"}, ("a", True)), WRONG),
        (case_of(TWO, ({"b": 1, "a": {}}, True)), ORDER),
        (case_of(TWO, ({"c": 1, "b": [{"q": 1}], "a": {"z": 1, "y": [], "x": 0}}, True)), ORDER),
        (case_of(TWO, ({"b": 1, "a": 1}, True)), WRONG),
        (case_of({"uniqueItems": True}, (1, True)), REFUSED),
        (case_of(False, (1, False)), PASS),
        (case_of(False, (1, True)), WRONG),
    ],
)
def test_verdicts(case: dict[str, Any], kind: str) -> None:
    assert judge(case).kind == kind


def test_the_walker_tells_members_from_others() -> None:
    grammar = Source.json_schema({"items": {"$ref": "#"}, "type": "array"}).grammar(Budget())
    walker = Walker(build_automaton(grammar, Budget()))
    for text, is_member, is_beginning in (
        (b"[[],[[ ]]]", True, True),
        (b"[", False, True),
        (b"[[]", False, True),
        (b"[1", False, False),
        (b"[]x", False, False),
    ):
        assert walker.accepts(text) == is_member
        assert walker.is_alive(walker.advance(walker.start, text)) == is_beginning
