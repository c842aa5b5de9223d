"""Every known difference, reproduced: a row that no longer holds for an engine that is installed has to go."""

from __future__ import annotations

from functools import cache

import pytest

from tests.differential.engines import HAS_XGRAMMAR, Engine, Llguidance, Ours, RefusedError, Request, Xgrammar
from tests.differential.judge import SchemaJudge
from tests.differential.known_differences import DIFFERENCES, Difference, Whose
from tests.differential.vocabulary import VOCABULARY, by_bytes
from tests.survey.walker import Walker

ENGINES = [Ours, Llguidance, Xgrammar]
WITHOUT_XGRAMMAR = pytest.mark.skipif(
    not HAS_XGRAMMAR, reason="XGrammar is not installed: pip install -e '.[differential]'"
)


@cache
def engine_of(kind: type[Engine]) -> Engine:
    return kind(VOCABULARY)  # type: ignore[call-arg]


def request_for(difference: Difference, engine: Engine) -> Request:
    return getattr(engine, difference.kind)(difference.source)  # type: ignore[no-any-return]


def accepts(request: Request, text: bytes) -> bool:
    """Byte by byte."""
    for byte in text:
        token = by_bytes()[bytes([byte])]
        is_allowed = token in request.mask()
        assert request.fork().accept(token) == is_allowed, "the mask says otherwise"
        if not is_allowed or not request.accept(token):
            return False
    return VOCABULARY.stop_token_ids[0] in request.mask()


@pytest.mark.parametrize(
    "number", [0, 1, pytest.param(2, marks=WITHOUT_XGRAMMAR)], ids=["ours", "llguidance", "xgrammar"]
)
@pytest.mark.parametrize("difference", DIFFERENCES, ids=lambda one: f"{one.why}: {one.text!a}")
def test_a_known_difference(difference: Difference, number: int) -> None:
    try:
        found = "FT"[accepts(request_for(difference, engine_of(ENGINES[number])), difference.text.encode())]
    except RefusedError:
        found = "-"
    assert found == difference.verdicts[number]


@pytest.mark.parametrize("difference", [one for one in DIFFERENCES if one.kind == "schema"], ids=lambda one: one.text)
def test_the_standard_sides_with_ours(difference: Difference) -> None:
    """And where this package has chosen, the standard would have admitted the text."""
    ours = engine_of(Ours).schema(difference.source)
    judge = SchemaJudge(difference.source, Walker(ours.automaton))  # type: ignore[attr-defined]
    is_valid = judge.is_valid(difference.text.encode())
    if difference.whose is Whose.THEIRS:
        assert is_valid == (difference.verdicts[0] == "T")
        assert set(difference.verdicts[1:]) - {difference.verdicts[0]}, "nobody differs"
    else:
        assert is_valid
        assert difference.verdicts[0] == "F"


@WITHOUT_XGRAMMAR
@pytest.mark.parametrize(
    ("text", "taken", "token"),
    [
        ('root ::= root [a-zA-Z] | "b"', b"bLWMqp", b"aa"),
        ('root ::= root "[[" | root | "ab"', b"ab[[[", b"[["),
        ('root ::= "a" | "[" root "]"', b"[[a", b"]]"),
    ],
)
def test_masks_of_recursion(text: str, taken: bytes, token: bytes) -> None:
    """XGrammar's masks omit tokens that go through several rounds of a rule, though it accepts them."""
    ours, theirs = (engine_of(one).ebnf(text) for one in (Ours, Xgrammar))
    for byte in taken:
        assert ours.accept(by_bytes()[bytes([byte])])
        assert theirs.accept(by_bytes()[bytes([byte])])
    assert by_bytes()[token] in ours.mask()
    assert by_bytes()[token] not in theirs.mask()
    assert theirs.accept(by_bytes()[token])
