"""Surveys: what becomes of every schema of a collection, and of the instances that come with it.

Owns the verdicts and the counts. A collection is a compressed file of one JSON object a line, with ``schema`` and
``tests``, each of which has ``data`` and ``valid``; it lies beside the checkout and is no part of it.
"""

from __future__ import annotations

import gzip
import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from shmcache.automaton.build import build_automaton
from shmcache.errors import LimitError, SourceError, UnsupportedError
from shmcache.grammar.key import Source
from shmcache.limits import Budget
from tests.conftest import REPOSITORY
from tests.survey.walker import Walker

DATA = REPOSITORY.parent / "shared" / "data"
MASKBENCH = DATA / "maskbench-600.jsonl.gz"
TEST_SUITE = DATA / "json-schema-test-suite.jsonl.gz"

DRAFTS = {f"draft{one}": f"http://json-schema.org/draft-0{one}/schema#" for one in (4, 7)}

PASS = "pass"
REFUSED = "refused"
LIMIT = "limit"
ORDER = "order alone"
WRONG = "wrong"


@dataclass(slots=True)
class Verdict:
    """What became of one schema. ``accepted``: invalid instances accepted; ``rejected``: valid ones rejected."""

    name: str
    kind: str
    feature: str = ""
    accepted: list[str] = field(default_factory=list)
    rejected: list[str] = field(default_factory=list)
    seconds: float = 0.0


IsException = Callable[[dict[str, Any], dict[str, Any]], bool]
"""Whether a test of a schema is one of the listed exceptions, in which another answer is meant."""


def cases(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of a collection."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def name_of(case: dict[str, Any]) -> str:
    """What a schema of a collection is called."""
    return str(case["id"]) if "id" in case else f"{case['file']}: {case['description']}"


def declared(case: dict[str, Any]) -> Any:
    """The schema of a case; in the suite, files of an older draft leave it to their folder to declare it."""
    schema, draft = case["schema"], str(case.get("file", ""))[:6]
    if draft not in DRAFTS or not isinstance(schema, dict) or "$schema" in schema:
        return schema
    return {"$schema": DRAFTS[draft], **schema}


def declared_order(schema: Any) -> list[list[str]]:
    """The names of properties, by object of the schema."""
    lists: list[list[str]] = []
    pending = [schema]
    while pending:
        here = pending.pop()
        if isinstance(here, dict):
            if isinstance(here.get("properties"), dict):
                lists.append(list(here["properties"]))
            pending.extend(here.values())
        elif isinstance(here, list):
            pending.extend(here)
    return lists


def texts(instance: Any) -> set[bytes]:
    """The instance with compact and with default separators, escaped and not."""
    compact = json.dumps(instance, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")
    return {compact, json.dumps(instance).encode()}


def judge(
    case: dict[str, Any], is_exception: IsException = lambda _case, _test: False, seconds_max: float = 30.0
) -> Verdict:
    """Compiles the schema of a case, within that time of the processor, and tries all its instances."""
    name, start = name_of(case), time.perf_counter()
    walker: Walker | None = None
    try:
        # Of the processor, so that no verdict is about what else the machine had to do.
        budget = partial(Budget, seconds_max=seconds_max, clock=time.process_time)
        grammar = Source.json_schema(declared(case), strict_mode=False).grammar(budget())
        walker = Walker(build_automaton(grammar, budget()))
    except UnsupportedError as error:
        return Verdict(name, REFUSED, error.feature)
    except LimitError as error:
        return Verdict(name, LIMIT, error.limit)
    except SourceError as error:
        if "nothing satisfies" not in error.message:
            return Verdict(name, REFUSED, "malformed: " + error.message)
    verdict = Verdict(name, PASS, seconds=time.perf_counter() - start)
    for test in case["tests"]:
        if is_exception(case, test):
            continue
        answers = {walker is not None and walker.accepts(text) for text in texts(test["data"])}
        if answers == {bool(test["valid"])}:
            continue
        text = json.dumps(test["data"])
        if not test["valid"]:
            verdict.accepted.append(text)
        elif walker is None or not walker.accepts_in_some_order(test["data"], declared_order(case["schema"])):
            verdict.rejected.append(text)
        elif verdict.kind == PASS:
            verdict.kind = ORDER
    if verdict.accepted or verdict.rejected:
        verdict.kind = WRONG
    return verdict


def summary(verdicts: Iterable[Verdict]) -> str:
    """Counts of verdicts and of what was refused, and every wrong answer."""
    listed = list(verdicts)
    kinds = Counter(verdict.kind for verdict in listed)
    features = Counter(verdict.feature for verdict in listed if verdict.kind in (REFUSED, LIMIT))
    lines = [", ".join(f"{kind} {count}" for kind, count in kinds.most_common())]
    lines.extend(f"  {count:4} {feature}" for feature, count in features.most_common())
    for verdict in listed:
        lines.extend(f"  ACCEPTED {verdict.name}: {text[:200]}" for text in verdict.accepted)
        lines.extend(f"  rejected {verdict.name}: {text[:200]}" for text in verdict.rejected)
    slowest = sorted(listed, key=lambda verdict: -verdict.seconds)[:5]
    lines.extend(f"  {verdict.seconds:.2f} s {verdict.name}" for verdict in slowest)
    return "\n".join(lines)


def is_known_exception(case: dict[str, Any], test: dict[str, Any]) -> bool:
    """Where the suite asks for another answer than the documented one.

    ``format`` is enforced here, and an annotation in the suite's own ``format.json``; a metaschema is not asked which
    keywords count; host names have no A-labels, and those beyond ASCII need no context; expressions have no named
    groups; and integers have their shortest spelling only.
    """
    file = str(case.get("file", ""))
    if "metaschema-no-validation" in str(case["schema"]):
        return True
    if file.endswith("/format.json") and isinstance(test["data"], str):
        return True
    if file.endswith("hostname.json") and test["valid"] and str(test["data"]).startswith("xn--"):
        return True
    if file.endswith("idn-hostname.json") and test["valid"] and not str(test["data"]).isascii():
        return True
    if file.endswith("/format/ecmascript-regex.json") and str(test["data"]).startswith("(?<n"):
        return True
    return _has_integral_float(test["data"])


def _has_integral_float(value: Any) -> bool:
    if isinstance(value, float):
        return value == int(value) if value - value == 0 else False
    if isinstance(value, (list, dict)):
        return any(map(_has_integral_float, value.values() if isinstance(value, dict) else value))
    return False
