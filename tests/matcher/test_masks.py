"""A mask is the same whatever rows are there: computed ahead, beside others, or walked where a matcher comes to it."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import numpy as np
import pytest

from shmcache.errors import LimitError
from shmcache.grammar.ir import Choice, Expression, Grammar, Literal, Reference, Regular, Sequence
from shmcache.grammar.key import Source
from shmcache.image.image import Image
from shmcache.limits import Budget
from shmcache.matcher import masks as masks_module
from shmcache.matcher.compiled_grammar import CompiledGrammar
from shmcache.matcher.lazy_rows import LazyRows
from shmcache.matcher.masks import Masks
from shmcache.matcher.matcher import GrammarMatcher
from shmcache.private import compile_source
from shmcache.regular.code_points import CodePoints
from shmcache.regular.dfa import Dfa
from shmcache.regular.encode import encode_utf8
from shmcache.regular.operations import characters, concatenate, everything, literal, repeat, subtract, unite, words
from shmcache.rows.row_table import NO_ROW
from shmcache.rows.rule_walker import plain_rules
from shmcache.vocabulary.vocabulary import Vocabulary
from tests.matcher.support import allowed, compiled_or_none, lifted, masks_of_states, with_rows_of
from tests.reference.grammars import random_grammar, random_vocabulary
from tests.reference.masks import reference_mask

__all__ = ["lifted"]

pytestmark = pytest.mark.reference

INNER = CodePoints.of("aé😀x")


@pytest.fixture
def paths(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often a mask came from where."""
    met: Counter[str] = Counter()
    difference, walk, resolve = LazyRows.difference, LazyRows.walk, Masks._resolve

    def counted_difference(self: LazyRows, state: int) -> Any:
        found = difference(self, state)
        met["beside"] += found is not None
        met["beside, changed"] += found is not None and bool(len(found.accepted) + len(found.rejected))
        return found

    def counted_walk(self: LazyRows, *arguments: Any) -> Any:
        met["walked"] += 1
        return walk(self, *arguments)

    def counted_resolve(self: Masks, *arguments: Any) -> Any:
        met["resolved"] += 1
        return resolve(self, *arguments)

    monkeypatch.setattr(LazyRows, "difference", counted_difference)
    monkeypatch.setattr(LazyRows, "walk", counted_walk)
    monkeypatch.setattr(Masks, "_resolve", counted_resolve)
    return met


def closed(content: Dfa) -> Dfa:
    """The content between two ``b``, as bytes."""
    between = concatenate(concatenate(literal("b"), content, Budget()), literal("b"), Budget())
    return encode_utf8(between, Budget())


def random_content(rng: Random) -> Dfa:
    """Of bounded length, without some words, of some words only, one more character, or another thing altogether."""
    few = words(rng.sample(["a", "aa", "é", "aé", "😀", "xx", ""], 2), Budget())
    return rng.choice(
        [
            repeat(characters(INNER), rng.randint(0, 2), rng.randint(2, 5), Budget()),
            repeat(characters(INNER), rng.randint(1, 3), None, Budget()),
            subtract(everything(INNER), few, Budget()),
            unite(everything(CodePoints.of("a")), few, Budget()),
            everything(CodePoints.of("aéy")),
            concatenate(literal("a"), everything(INNER), Budget()),
        ]
    )


def random_strings(rng: Random) -> Grammar:
    """Rules of texts in quotes, some like one of any text, each followed by other bytes."""
    rules: dict[str, Expression] = {"any": Regular(closed(everything(INNER)))}
    for name in ("one", "two", "three"):
        rules[name] = Regular(closed(random_content(rng)))
    followed = [
        Sequence((Reference(name), Literal(rng.choice([b"\xff", b"a", b"x\xff", b"xa", b""]))))
        for name in rng.sample(sorted(rules), rng.randint(1, 3))
    ]
    rules["root"] = rng.choice([Choice, Sequence])(tuple(followed))
    return Grammar(rules, "root", frozenset({"any", "one", "two", "three"}), frozenset({"any"}))


def random_rules(rng: Random, image: Image, chance: float) -> list[int]:
    """One rule, of bytes alone where there is such a one, and others with that chance."""
    rules = range(image.automaton.rule_count)
    plain = np.flatnonzero(plain_rules(image.automaton)).tolist()
    return [rng.choice(plain or rules), *(rule for rule in rules if rng.random() < chance)]


def check_walks(rng: Random, tested: Grammar, vocabulary: Vocabulary, image: Image) -> int:
    """Along two random walks: the mask is what the grammar says, and what accepting says. Returns the steps."""
    steps = 0
    grammar = CompiledGrammar(image, vocabulary, generation=0, memory_size_bytes=0)
    for _ in range(2):
        matcher, text = GrammarMatcher(grammar), b""
        for _ in range(5):
            try:
                found = allowed(matcher, vocabulary.width)
                accepted = {one for one in range(vocabulary.width + 3) if matcher.fork().accept_token(one)}
            except LimitError:
                break
            context = (text, tested, [vocabulary.token_bytes(number) for number in range(vocabulary.size)])
            assert found == accepted, context
            assert found == reference_mask(tested, vocabulary, text, set(matcher.stop_token_ids)), context
            ways = sorted(found - set(matcher.stop_token_ids))
            if not ways or len(text) > 7:
                break
            token = rng.choice(ways)
            assert matcher.accept_token(token)
            text += vocabulary.token_bytes(token)
            steps += 1
    return steps


@pytest.mark.usefixtures("lifted")
@pytest.mark.parametrize("seed", range(6))
def test_strings_like_others(seed: int, paths: Counter[str]) -> None:
    """Any text has rows, and whichever other rules; the rest is worked out beside them."""
    rng = Random(seed)
    steps = 0
    for _ in range(12):
        tested, vocabulary = random_strings(rng), random_vocabulary(rng, more=20)
        grammar = compiled_or_none(tested, vocabulary)
        assert grammar is not None
        image = with_rows_of(grammar.image, vocabulary, random_rules(rng, grammar.image, rng.choice([0, 0.3])))
        steps += check_walks(rng, tested, vocabulary, image)
    assert steps > 20
    assert min(paths[name] for name in ("beside", "beside, changed", "walked", "resolved")) > 1, paths


@pytest.mark.usefixtures("lifted")
@pytest.mark.parametrize("seed", range(6))
def test_random_grammars_with_any_rows(seed: int, paths: Counter[str]) -> None:
    rng = Random(seed)
    steps = 0
    for _ in range(6):
        tested, vocabulary = random_grammar(rng), random_vocabulary(rng)
        grammar = compiled_or_none(tested, vocabulary)
        if grammar is None:
            continue
        rules = rng.choice([[], random_rules(rng, grammar.image, 0.3), range(grammar.image.automaton.rule_count)])
        image = with_rows_of(grammar.image, vocabulary, rules)
        steps += check_walks(rng, tested, vocabulary, image)
    assert steps > 5
    assert paths["walked"] + paths["resolved"] > 5


@pytest.mark.usefixtures("lifted")
@pytest.mark.parametrize("seed", range(8))
def test_every_state_behind_every_caller(seed: int, paths: Counter[str]) -> None:
    """By walks alone, with the rows of all rules, and with those of some."""
    rng = Random(seed)
    compared = 0
    for _ in range(12):
        tested = random_strings(rng) if rng.random() < 0.6 else random_grammar(rng)
        vocabulary = random_vocabulary(rng, more=40)
        grammar = compiled_or_none(tested, vocabulary)
        if grammar is None:
            continue
        states = range(grammar.image.automaton.state_count)
        try:
            expected, _ = masks_of_states(with_rows_of(grammar.image, vocabulary, []), vocabulary, states)
            for chance in (1, 0.5, 0, 0):
                image = with_rows_of(grammar.image, vocabulary, random_rules(rng, grammar.image, chance))
                found, _ = masks_of_states(image, vocabulary, states)
                assert found == expected, (tested, [vocabulary.token_bytes(one) for one in range(vocabulary.size)])
                compared += len(found)
        except LimitError:
            continue
    assert compared > 300
    assert min(paths[name] for name in ("beside", "beside, changed", "walked", "resolved")) > 20, paths


SCHEMAS: dict[str, dict[str, Any]] = {
    "bounded": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 9}}, "required": ["name"]},
    "long": {"type": "array", "items": {"type": "string", "minLength": 2, "maxLength": 40}},
    "excluded names": {
        "type": "object",
        "properties": {"name": {"type": "integer"}, "age": {"type": "null"}},
        "additionalProperties": {"type": "string"},
    },
    "pattern": {"type": "object", "patternProperties": {"^a": {"type": "string", "pattern": "^[^x]+$"}}},
    "other than": {"type": "array", "items": {"type": "string", "not": {"enum": ["name", "value"]}}},
    "formats": {"type": "object", "properties": {"at": {"type": "string", "format": "uri"}}, "required": ["at"]},
    "anything": {},
}


@pytest.mark.usefixtures("lifted")
@pytest.mark.parametrize("name", SCHEMAS)
def test_schemas(name: str, small_vocabulary: Vocabulary, paths: Counter[str]) -> None:
    """Names followed by a colon and values followed by a comma share what is known of any string."""
    source = Source.json_schema(SCHEMAS[name], strict_mode=False)
    image = compile_source(source, small_vocabulary).image
    states = range(0, image.automaton.state_count, 1 + image.automaton.state_count // 300)
    expected, _ = masks_of_states(with_rows_of(image, small_vocabulary, []), small_vocabulary, states)
    paths.clear()
    found, _ = masks_of_states(with_rows_of(image, small_vocabulary, rules_with_rows(image)), small_vocabulary, states)
    assert found == expected
    assert paths["resolved"]
    everything_ahead, _ = masks_of_states(
        with_rows_of(image, small_vocabulary, range(image.automaton.rule_count)), small_vocabulary, states
    )
    assert everything_ahead == expected


def rules_with_rows(image: Image) -> list[int]:
    """As the compiler has chosen them."""
    has_row = np.logical_or.reduceat(image.rows.state_accepted != NO_ROW, image.automaton.rule_start)
    rules: list[int] = np.flatnonzero(has_row).tolist()
    assert rules
    return rules


@pytest.mark.parametrize("name", ["bounded", "long", "excluded names", "other than"])
def test_the_thresholds_let_strings_be_worked_out_beside_others(
    name: str, small_vocabulary: Vocabulary, paths: Counter[str]
) -> None:
    """As they are, without any lifted: masks are the same, and some come from a base."""
    image = compile_source(Source.json_schema(SCHEMAS[name], strict_mode=False), small_vocabulary).image
    states = range(0, image.automaton.state_count, 1 + image.automaton.state_count // 300)
    found, _ = masks_of_states(image, small_vocabulary, states)
    assert paths["beside"] > 0
    assert paths["walked"] > 0
    expected, _ = masks_of_states(with_rows_of(image, small_vocabulary, []), small_vocabulary, states)
    assert found == expected


def test_few_and_many_words_of_a_walk(monkeypatch: pytest.MonkeyPatch, small_vocabulary: Vocabulary) -> None:
    """A mask of few words is remembered as they are, one of many against the nearest base; both are one mask."""
    source = Source.json_schema({"enum": ["true", "name", 12, None, ["a"]]})
    image = compile_source(source, small_vocabulary).image
    states = range(image.automaton.state_count)
    image = with_rows_of(image, small_vocabulary, [])
    few, _ = masks_of_states(image, small_vocabulary, states)
    monkeypatch.setattr(masks_module, "_FEW_WORDS_MAX", 0)
    many, _ = masks_of_states(image, small_vocabulary, states)
    assert few == many
    assert len(set(few.values())) > 5


def test_bitmasks_that_are_kept_are_few(monkeypatch: pytest.MonkeyPatch, small_vocabulary: Vocabulary) -> None:
    """Sets past those are expanded each time, and are never what a remembered mask rests on."""
    image = compile_source(Source.json_schema(SCHEMAS["excluded names"], strict_mode=False), small_vocabulary).image
    states = range(image.automaton.state_count)
    expected, _ = masks_of_states(image, small_vocabulary, states)
    monkeypatch.setattr(masks_module, "_BITMASKS_MAX", 1)
    found, masks = masks_of_states(image, small_vocabulary, states)
    assert found == expected
    assert len(masks._bitmasks) <= 1
