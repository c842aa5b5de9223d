"""Rows of counted strings from one table of tokens: against the slow twin, and where none is given."""

from __future__ import annotations

import gc
from random import Random
from weakref import ref

import numpy as np
import pytest

from shmcache.grammar.ir import Expression, Grammar, Regular
from shmcache.grammar.key import Source
from shmcache.image.image import Image
from shmcache.limits import Budget
from shmcache.matcher import counted_tokens, lazy_rows
from shmcache.matcher.counted_tokens import CountedRow, CountedTokens
from shmcache.matcher.lazy_rows import LazyRows
from shmcache.private import compile_source
from shmcache.regular.dfa import Dfa, trim
from shmcache.regular.operations import characters, everything, intersect, repeat
from shmcache.rows.arrays import ACCEPTED, INSIDE, UNCERTAIN
from shmcache.rows.row_table import NO_ROW
from shmcache.vocabulary.vocabulary import Vocabulary
from tests.matcher.support import compiled, compiled_or_none, lifted, with_rows_of
from tests.matcher.test_masks import INNER, closed, random_content
from tests.reference.grammars import random_vocabulary
from tests.reference.masks import mask_bits
from tests.reference.rows import Row, row_of

__all__ = ["lifted"]

pytestmark = pytest.mark.reference


def row_of_counted(found: CountedRow) -> Row:
    """What it says, with its parts checked: sets apart from each other, and of the one type that kernels take."""
    inside, fewer = mask_bits(found.bitmask), set(found.fewer.tolist())
    more, uncertain = set(found.more.tolist()), set(found.uncertain.tolist())
    assert fewer <= inside
    assert not more & inside
    assert not uncertain & (inside | more)
    for array in (found.bitmask, found.fewer, found.more, found.uncertain):
        assert array.dtype == np.int32
        assert not array.flags.writeable
    assert not found.bitmask.flags.owndata, "it stays: masks are remembered against it"
    return Row(frozenset((inside - fewer) | more), frozenset(uncertain))


def counted_rows(image: Image, vocabulary: Vocabulary, lazy: LazyRows) -> int:
    """Compares the row of every state that has one; returns how many."""
    count = 0
    for state in range(image.automaton.state_count):
        found = lazy.counted(state)
        if found is not None:
            assert row_of_counted(found) == row_of(image.automaton, state, vocabulary)
            count += 1
    return count


def beside_any(body: Dfa, vocabulary: Vocabulary) -> Image | None:
    """An image of the body, and of any content of characters, which alone has rows."""
    rules: dict[str, Expression] = {"root": Regular(body), "any": Regular(closed(everything(INNER)))}
    grammar = compiled_or_none(Grammar(rules, "root", base_rules=frozenset({"any"})), vocabulary)
    return None if grammar is None else with_rows_of(grammar.image, vocabulary, [1])


def damaged(rng: Random, dfa: Dfa) -> Dfa:
    """One edge gone, led elsewhere, or cut."""
    rows = [list(row) for row in dfa.edges]
    state = rng.choice([state for state, row in enumerate(rows) if row])
    at = rng.randrange(len(rows[state]))
    low, high, target = rows[state][at]
    rows[state][at : at + 1] = rng.choice([[], [(low, high, rng.randrange(len(rows)))], [(low, low, target)]])
    return trim(rows, list(dfa.accepting))


@pytest.mark.usefixtures("lifted")
@pytest.mark.parametrize("seed", range(6))
def test_rows_of_counted_strings(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of any bounds, and of strings that are nearly counted: each row that is given is the row."""
    rng = Random(seed)
    counted = others = 0
    for _ in range(25):
        monkeypatch.setattr(counted_tokens, "_FEW_TOKENS_MAX", rng.choice([0, 3, 256]))
        fewest = rng.randint(0, 3)
        content = repeat(characters(INNER), fewest, rng.choice([None, fewest + rng.randint(1, 4)]), Budget())
        body = closed(rng.choice([content, content, random_content(rng)]))
        if rng.random() < 0.4:
            body = damaged(rng, body)
        vocabulary = random_vocabulary(rng, more=40)
        image = beside_any(body, vocabulary)
        if image is not None:
            found = counted_rows(image, vocabulary, LazyRows(image.automaton, image.rows, vocabulary))
            counted += found
            others += found < 2  # the loop itself is one
    assert counted > 30
    assert others > 0


@pytest.mark.usefixtures("lifted")
def test_every_state_between_two_characters_is_counted() -> None:
    """With a most, with a fewest, and with both; not where some lengths between are left out."""
    vocabulary = random_vocabulary(Random(1), more=60)
    character = characters(INNER)
    for fewest, most, states in ((0, 4, 5), (2, None, 3), (1, 3, 4)):
        image = beside_any(closed(repeat(character, fewest, most, Budget())), vocabulary)
        assert image is not None
        assert counted_rows(image, vocabulary, LazyRows(image.automaton, image.rows, vocabulary)) == states + 1, most
    even = repeat(repeat(character, 2, 2, Budget()), 0, 2, Budget())
    image = beside_any(closed(intersect(even, repeat(character, 0, 4, Budget()), Budget())), vocabulary)
    assert image is not None
    lazy = LazyRows(image.automaton, image.rows, vocabulary)
    assert counted_rows(image, vocabulary, lazy) < 5


def test_a_schema_with_the_thresholds_as_they_are(small_vocabulary: Vocabulary) -> None:
    """A sample of the states of bounded strings; and one table does for two grammars."""
    lazy_rows._counted_tokens.pop(small_vocabulary, None)
    for bounds in ({"maxLength": 12}, {"minLength": 3, "maxLength": 40}):
        image = compile_source(Source.json_schema({"type": "string", **bounds}), small_vocabulary).image
        lazy = LazyRows(image.automaton, image.rows, small_vocabulary)
        found = {state: lazy.counted(state) for state in range(image.automaton.state_count)}
        counted = [state for state, row in found.items() if row is not None]
        without = [state for state in counted if image.rows.state_accepted[state] == NO_ROW]
        assert len(without) >= bounds["maxLength"]
        for state in without[:: 1 + len(without) // 8]:
            row = found[state]
            assert row is not None
            assert row_of_counted(row) == row_of(image.automaton, state, small_vocabulary)
    assert len(lazy_rows._counted_tokens[small_vocabulary]) == 1


def table() -> CountedTokens:
    """Tokens 0 to 9 begin so many characters; 10 and 11 end the string behind 1 and 3, 12 and 13 leave it there."""
    begun = np.array([*range(10), 1, 3, 1, 3], dtype=np.int32)
    verdicts = np.array([INSIDE] * 10 + [ACCEPTED] * 2 + [UNCERTAIN] * 2, dtype=np.uint8)
    return CountedTokens(np.arange(14, dtype=np.int32), begun, verdicts, 1)


def test_bounds_of_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inside counts the most alone; at the end the fewest counts too. What is asked for twice is made once."""
    monkeypatch.setattr(counted_tokens, "_FEW_TOKENS_MAX", 2)
    tokens = table()
    for left, needed, inside, more, uncertain in (
        (0, 0, {0}, set(), set()),
        (1, 0, {0, 1}, {10}, {12}),
        (3, 2, {0, 1, 2, 3}, {11}, {13}),
        (8, 0, set(range(9)), {10, 11}, {12, 13}),
        (1 << 20, 4, set(range(10)), set(), set()),
    ):
        row = row_of_counted(tokens.row(left, needed))
        assert row == Row(frozenset(inside | more), frozenset(uncertain))
        assert tokens.row(left, needed) is tokens.row(left, needed)
    assert tokens.row(20, 0) is tokens.row(1 << 20, 0), "no token begins so many"
    assert tokens.row(8, 0).bitmask is tokens.row(9, 0).bitmask, "few are listed"


LETTERS = "acefgxyz"


def test_tables_are_few_and_go_with_their_vocabulary(monkeypatch: pytest.MonkeyPatch) -> None:
    """Past the bound they are made anew."""
    monkeypatch.setattr(lazy_rows, "_TABLES_MAX", 2)
    monkeypatch.setattr(lazy_rows, "BESIDE_PART", 1 << 30)
    vocabulary = Vocabulary([bytes([97 + at]) for at in range(26)])
    for letter in LETTERS:
        character = Dfa((((ord(letter), ord(letter), 1),), ()), (False, True))
        bounded, unbounded = (closed(repeat(character, 0, most, Budget())) for most in (3, None))
        tested = Grammar({"root": Regular(bounded), "any": Regular(unbounded)}, "root", base_rules=frozenset({"any"}))
        image = with_rows_of(compiled(tested, vocabulary).image, vocabulary, [1])
        lazy = LazyRows(image.automaton, image.rows, vocabulary)
        assert counted_rows(image, vocabulary, lazy) >= 4
        assert 1 <= len(lazy_rows._counted_tokens[vocabulary]) <= 2
    held = ref(vocabulary)
    del vocabulary, lazy, image
    gc.collect()
    assert held() is None


def test_a_table_is_made_where_it_spares_more_than_it_takes(small_vocabulary: Vocabulary) -> None:
    """Far from the end a walk beside the base is short; once there is a table, it is used there too."""
    lazy_rows._counted_tokens.pop(small_vocabulary, None)
    image = compile_source(Source.json_schema({"type": "string", "maxLength": 60}), small_vocabulary).image
    lazy = LazyRows(image.automaton, image.rows, small_vocabulary)
    without = [state for state in range(image.automaton.state_count) if image.rows.state_accepted[state] == NO_ROW]
    first = {state for state in without if lazy.counted(state) is not None}
    assert small_vocabulary in lazy_rows._counted_tokens
    again = {state for state in without if lazy.counted(state) is not None}
    assert first < again
    assert len(again) == 60, "one for each number of characters that are left"
    assert all(lazy.difference(state) is not None for state in again - first)
