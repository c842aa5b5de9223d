"""Masks of this package beside those of its peers, token by token: no difference may be a mistake of this package.

Each difference is followed to a whole text, on which a third party decides (:mod:`tests.differential.judge`).
``python -m tests.differential`` does the same for all schemas of the collection.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from random import Random
from typing import Any

import pytest

from shmcache.vocabulary.vocabulary import Vocabulary
from tests.differential.comparison import Report, compare_schema, wander_ebnf, wander_regex, wander_schema
from tests.differential.engines import HAS_XGRAMMAR, Engine, Llguidance, Ours, Xgrammar
from tests.differential.judge import Verdict
from tests.differential.sources import EXPRESSIONS, GRAMMARS, MACROS, SCHEMAS, random_ebnf, random_pattern
from tests.differential.vocabulary import VOCABULARY
from tests.survey.survey import MASKBENCH, cases

NEEDS_XGRAMMAR = pytest.mark.skipif(
    not HAS_XGRAMMAR, reason="XGrammar is not installed: pip install -e '.[differential]'"
)
XGRAMMAR = pytest.param(Xgrammar, marks=NEEDS_XGRAMMAR, id="xgrammar")
ENGINES = [pytest.param(Llguidance, id="llguidance"), XGRAMMAR]
NEEDS_COLLECTION = pytest.mark.skipif(not MASKBENCH.exists(), reason=f"{MASKBENCH} is not there")
SCHEMAS_COMPARED = 100
CHUNKS = 4


@cache
def engine_of(kind: Any) -> Any:
    return kind(VOCABULARY)


def check(reports: Iterable[Report], *, undecided_max: float = 0.03) -> Report:
    """Fails where this package is wrong, and where too little was decided to tell."""
    total = Report()
    for report in reports:
        total.steps += report.steps
        total.agreeing += report.agreeing
        total.findings.extend(report.findings)
    mistakes = [finding.describe() for finding in total.findings if finding.verdict.is_ours]
    assert mistakes == []
    assert total.counts()[Verdict.UNDECIDED] <= undecided_max * max(len(total.findings), 100)
    return total


@NEEDS_COLLECTION
@pytest.mark.parametrize("chunk", range(CHUNKS))
@pytest.mark.parametrize("kind", ENGINES)
def test_schemas_of_the_collection(kind: type[Engine], chunk: int) -> None:
    ours, theirs = engine_of(Ours), engine_of(kind)
    reports = []
    for number, case in enumerate(cases(MASKBENCH)):
        if number % (600 // SCHEMAS_COMPARED) == 0 and number // (600 // SCHEMAS_COMPARED) % CHUNKS == chunk:
            valid = [test["data"] for test in case["tests"] if test["valid"]][:1]
            reports.append(compare_schema(case["schema"], valid, ours, theirs, seed=number))
    total = check(reports)
    assert sum(not report.refused for report in reports) >= 15
    assert total.steps > 1_000
    assert total.agreeing > total.steps / 4


@pytest.mark.parametrize("layout", ["flexible", "compact"])
@pytest.mark.parametrize("name", SCHEMAS)
@pytest.mark.parametrize("kind", ENGINES)
def test_json_schemas(kind: type[Engine], name: str, layout: str) -> None:
    report = wander_schema(SCHEMAS[name], 4, engine_of(Ours), engine_of(kind), layout=layout)
    assert not report.refused
    check([report])
    assert report.steps > 4


@pytest.mark.parametrize("kind", ENGINES)
def test_regular_expressions(kind: type[Engine]) -> None:
    reports = [wander_regex(pattern, 4, engine_of(Ours), engine_of(kind)) for pattern in EXPRESSIONS]
    assert not any(report.refused for report in reports)
    total = check(reports)
    assert total.agreeing > total.steps * 0.9


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", ENGINES)
def test_random_regular_expressions(kind: type[Engine], seed: int) -> None:
    rng = Random(seed)
    reports = [
        wander_regex(random_pattern(rng), 2, engine_of(Ours), engine_of(kind), seed=number) for number in range(40)
    ]
    total = check(reports, undecided_max=0.15)
    assert sum(not report.refused for report in reports) > 30
    assert total.agreeing > total.steps / 3


@pytest.mark.parametrize("kind", [XGRAMMAR])
def test_grammars(kind: type[Engine]) -> None:
    reports = [wander_ebnf(text, 4, engine_of(Ours), engine_of(kind)) for text in GRAMMARS]
    assert not any(report.refused for report in reports)
    total = check(reports)
    assert total.agreeing > total.steps * 0.9


@pytest.mark.parametrize("text", MACROS)
@pytest.mark.parametrize("kind", [XGRAMMAR])
def test_macros(kind: type[Engine], text: str) -> None:
    """Free text is UTF-8 here, and any bytes there."""
    report = wander_ebnf(text, 8, engine_of(Ours), engine_of(kind))
    assert not report.refused
    check([report])
    assert report.steps > 10


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", [XGRAMMAR])
def test_random_grammars(kind: type[Engine], seed: int) -> None:
    rng = Random(seed)
    reports = [wander_ebnf(random_ebnf(rng), 2, engine_of(Ours), engine_of(kind), seed=number) for number in range(30)]
    total = check(reports, undecided_max=0.15)
    assert sum(not report.refused for report in reports) > 25
    assert total.agreeing > total.steps * 0.9


@pytest.mark.tekken
def test_json_schemas_over_the_large_vocabulary(tekken: Vocabulary) -> None:
    ours, theirs = Ours(tekken), Llguidance(tekken)
    reports = [wander_schema(SCHEMAS[name], 1, ours, theirs) for name in ("person", "recursion", "anything")]
    total = check(reports)
    assert total.steps > 20
