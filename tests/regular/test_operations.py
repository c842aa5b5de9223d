"""The algebra of regular languages against that of sets of short words."""

from __future__ import annotations

from random import Random

import pytest

from shmcache.errors import LimitError
from shmcache.limits import Budget
from shmcache.regular.code_points import ANY, NONE, CodePoints
from shmcache.regular.dfa import EMPTY_LANGUAGE, EMPTY_WORD, Dfa
from shmcache.regular.nfa import determinise
from shmcache.regular.operations import (
    characters,
    complement,
    concatenate,
    everything,
    intersect,
    length_between,
    literal,
    partition,
    repeat,
    subtract,
    unite,
    words,
)
from tests.reference.dfa import as_builder, check_dfa, language, random_nfa
from tests.reference.dfa import words as all_words

ALPHABET = (97, 98)
LENGTH = 5

Words = set[tuple[int, ...]]


def budget() -> Budget:
    return Budget()


def random_language(rng: Random) -> tuple[Dfa, Words]:
    if rng.random() < 0.1:
        return rng.choice([(EMPTY_LANGUAGE, set()), (EMPTY_WORD, {()})])
    nfa = random_nfa(rng, ALPHABET, 4)
    dfa = determinise(as_builder(nfa, budget()), 0, nfa.accepting, budget())
    return dfa, {word for word in all_words(ALPHABET, LENGTH) if nfa.accepts(word)}


def joined(first: Words, second: Words) -> Words:
    return {one + other for one in first for other in second if len(one) + len(other) <= LENGTH}


def power(of: Words, minimum: int, maximum: int | None) -> Words:
    # Beyond minimum + LENGTH repetitions, further ones can only repeat the empty word.
    result: Words = set()
    this: Words = {()}
    for count in range((minimum + LENGTH if maximum is None else maximum) + 1):
        if count >= minimum:
            result |= this
        this = joined(this, of)
    return result


@pytest.mark.parametrize("seed", range(4))
def test_operations_are_those_of_sets(seed: int) -> None:
    rng = Random(seed)
    alphabet = CodePoints.of(*ALPHABET)
    everything_short = set(all_words(ALPHABET, LENGTH))
    for _ in range(25):
        first, first_words = random_language(rng)
        second, second_words = random_language(rng)
        minimum = rng.randint(0, 3)
        maximum = rng.choice([None, minimum, minimum + rng.randint(0, 2)])
        for name, result, expected in (
            ("intersect", intersect(first, second, budget()), first_words & second_words),
            ("unite", unite(first, second, budget()), first_words | second_words),
            ("subtract", subtract(first, second, budget()), first_words - second_words),
            ("complement", complement(first, alphabet, budget()), everything_short - first_words),
            ("concatenate", concatenate(first, second, budget()), joined(first_words, second_words)),
            ("repeat", repeat(first, minimum, maximum, budget()), power(first_words, minimum, maximum)),
        ):
            assert language(result, ALPHABET, LENGTH) == expected, (name, first, second, minimum, maximum)
            check_dfa(result)


@pytest.mark.parametrize("seed", range(100))
def test_a_partition_is_made_of_intersections_and_differences(seed: int) -> None:
    rng = Random(seed)
    (dfa, of), *splitters = (random_language(rng) for _ in range(rng.randint(1, 4)))
    parts = partition(dfa, [splitter for splitter, _ in splitters], budget())
    assert list(parts) == sorted(parts, reverse=True)
    seen: Words = set()
    for kind, part in parts.items():
        expected = of.copy()
        for is_in, (_, others) in zip(kind, splitters, strict=True):
            expected = expected & others if is_in else expected - others
        check_dfa(part)
        assert language(part, ALPHABET, LENGTH) == expected
        assert not part.is_empty
        direct = dfa
        for is_in, (splitter, _) in zip(kind, splitters, strict=True):
            direct = (intersect if is_in else subtract)(direct, splitter, budget())
        assert part == direct, "minimal, as by one operation after the other"
        seen |= expected
    assert seen == of


def test_complement_within_a_smaller_alphabet() -> None:
    """Words with other letters are in neither the language nor its complement."""
    not_a = complement(literal("ab"), CodePoints.of("a"), budget())
    assert language(not_a, ALPHABET, 3) == {(97,) * length for length in range(4)}
    assert complement(everything(ANY), ANY, budget()) == EMPTY_LANGUAGE
    assert complement(EMPTY_LANGUAGE, ANY, budget()) == everything(ANY)
    assert complement(EMPTY_LANGUAGE, NONE, budget()) == EMPTY_WORD


def test_de_morgan_over_all_of_unicode() -> None:
    vowels, ascii_text = characters(CodePoints.of("aeiouäöü")), everything(CodePoints.of((0, 127)))

    def negated(dfa: Dfa) -> Dfa:
        return complement(dfa, ANY, budget())

    assert negated(unite(vowels, ascii_text, budget())) == intersect(negated(vowels), negated(ascii_text), budget())


@pytest.mark.parametrize(("minimum", "maximum"), [(0, 0), (0, 3), (2, 2), (1, 4), (0, None), (3, None), (3, 2)])
def test_length_between_is_a_repetition_of_characters(minimum: int, maximum: int | None) -> None:
    built = length_between(minimum, maximum, budget())
    assert built == repeat(characters(ANY), minimum, maximum, budget())
    check_dfa(built)
    for length in range(6):
        assert built.accepts([0x1F600] * length) == (minimum <= length and (maximum is None or length <= maximum))


def test_repetitions_that_cannot_be_met_are_empty() -> None:
    assert repeat(literal("a"), 3, 2, budget()) == EMPTY_LANGUAGE
    assert repeat(EMPTY_LANGUAGE, 1, None, budget()) == EMPTY_LANGUAGE
    assert repeat(EMPTY_LANGUAGE, 0, None, budget()) == EMPTY_WORD
    assert repeat(EMPTY_WORD, 1_000, 2_000, budget()) == EMPTY_WORD


def test_long_lengths_are_built_directly() -> None:
    long = length_between(0, 200_000, Budget(seconds_max=5))
    assert long.state_count == 200_001
    with pytest.raises(LimitError):
        length_between(0, 2_000_000, Budget())


@pytest.mark.parametrize("seed", range(3))
def test_words_are_a_trie_with_joined_tails(seed: int) -> None:
    rng = Random(seed)
    for _ in range(30):
        texts = ["".join(rng.choice("abé") for _ in range(rng.randint(0, 4))) for _ in range(rng.randint(0, 6))]
        built = words(texts, budget())
        check_dfa(built)
        expected = {tuple(map(ord, text)) for text in texts}
        assert language(built, (97, 98, 0xE9), 4) == expected, texts
        united = EMPTY_LANGUAGE
        for text in texts:
            united = unite(united, literal(text), budget())
        assert built == united, texts


def test_thousands_of_words_are_quick() -> None:
    built = words((f"name-{number:05}" for number in range(5_000)), Budget(seconds_max=5))
    assert built.accepts(map(ord, "name-04999"))
    assert not built.accepts(map(ord, "name-05000"))
    assert built.state_count < 60


def test_small_automata_are_minimal() -> None:
    for dfa in (
        literal(""),
        literal("abé"),
        characters(NONE),
        characters(CodePoints.of("a😀")),
        characters(ANY),
        everything(ANY),
        everything(NONE),
    ):
        check_dfa(dfa)
    assert literal("") == EMPTY_WORD
    assert characters(NONE) == EMPTY_LANGUAGE
    assert literal("aé").accepts((97, 0xE9))
    assert not literal("aé").accepts((97,))


def test_a_product_is_stopped_at_its_limit() -> None:
    cycle, other = (repeat(literal("a" * prime), 0, None, budget()) for prime in (47, 53))
    with pytest.raises(LimitError):
        intersect(cycle, other, Budget(states_max=1_000))
    assert intersect(cycle, other, budget()).state_count == 47 * 53
