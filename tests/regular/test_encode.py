"""Encodings of texts against Python's codecs and ``json``; the claim that they stay minimal."""

from __future__ import annotations

import json
from random import Random

import pytest

from shmcache.limits import Budget
from shmcache.regular.code_points import ANY, CodePoints
from shmcache.regular.dfa import EMPTY_LANGUAGE, EMPTY_WORD, Dfa, minimise
from shmcache.regular.encode import encode_json_string, encode_utf8
from shmcache.regular.nfa import NfaBuilder, determinise
from shmcache.regular.operations import characters, everything, length_between, literal, words
from tests.reference.dfa import check_dfa, moore_state_count

EDGES = [0, 0x1F, 0x20, 0x22, 0x2F, 0x5C, 0x7F, 0x80, 0x7FF, 0x800, 0xFFF, 0x1000, 0xD7FF, 0xE000, 0xFFFF]
EDGES += [0x10000, 0x103FF, 0x10400, 0x1F600, 0x3FFFF, 0x40000, 0xFFFFF, 0x100000, 0x10FFFF]
SHORT = {'"': '\\"', "\\": "\\\\", "/": "\\/", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def random_code_point(rng: Random) -> int:
    while True:
        code = rng.choice([rng.choice(EDGES) + rng.randint(-2, 2), rng.randrange(0x110000), rng.randrange(0x80)])
        if 0 <= code <= 0x10FFFF and not 0xD800 <= code <= 0xDFFF:
            return code


def random_set(rng: Random) -> CodePoints:
    ranges = []
    for _ in range(rng.randint(1, 4)):
        low = random_code_point(rng)
        high = rng.choice([low, random_code_point(rng), min(low + rng.randint(0, 5_000), 0x10FFFF)])
        ranges.append((min(low, high), max(low, high)))
    return CodePoints.from_ranges(ranges)


def random_text_automaton(rng: Random) -> Dfa:
    builder = NfaBuilder(Budget())
    states = [builder.add_state() for _ in range(rng.randint(1, 4))]
    for _ in range(rng.randint(1, 5)):
        source, target = rng.choice(states), rng.choice(states)
        for low, high in random_set(rng).ranges:
            builder.add_edge(source, low, high, target)
    return determinise(builder, 0, {rng.choice(states), rng.choice(states)}, Budget())


def random_text(rng: Random, automaton: Dfa) -> str:
    """A walk through the automaton, now and then with a step of its own."""
    state, text = 0, ""
    for _ in range(rng.randint(0, 6)):
        row = automaton.edges[state] if state >= 0 else ()
        if row and rng.random() < 0.9:
            low, high, _ = rng.choice(row)
            code = rng.choice([low, high, rng.randint(low, high)])
        else:
            code = random_code_point(rng)
        text += chr(code)
        state = automaton.target(state, code) if state >= 0 else -1
    return text


def spelling(rng: Random, text: str) -> str:
    """One of the ways in which JSON may spell the text."""
    parts = []
    for character in text:
        units = character.encode("utf-16-be")
        hexadecimal = "".join(f"\\u{units[at] << 8 | units[at + 1]:04x}" for at in range(0, len(units), 2))
        hexadecimal = "".join(
            rng.choice((letter, letter.upper())) if letter != "u" else letter for letter in hexadecimal
        )
        ways = [hexadecimal]
        if character in SHORT:
            ways.append(SHORT[character])
        if character >= " " and character not in '"\\':
            ways += [character, character]
        parts.append(rng.choice(ways))
    return "".join(parts)


def mutated(rng: Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.randint(1, 2)):
        at = rng.randint(0, len(changed))
        how = rng.randrange(3)
        if how == 0 and at < len(changed):
            changed[at] = rng.choice([rng.randrange(256), *b'u\\"DdA0'])
        elif how == 1:
            changed.insert(at, rng.choice([rng.randrange(256), *b'u\\"DdA0']))
        elif at < len(changed):
            del changed[at]
    return bytes(changed)


def decoded_json(data: bytes) -> str | None:
    """What Python reads between the quotes; None where that is not JSON, or has half a surrogate pair."""
    try:
        text = json.loads(b'"' + data + b'"')
        text.encode()
    except (ValueError, UnicodeError):
        return None
    assert isinstance(text, str)
    return text


def member(text_automaton: Dfa, text: str | None) -> bool:
    return text is not None and text_automaton.accepts(map(ord, text))


@pytest.mark.parametrize("seed", range(4))
def test_utf8_is_that_of_python(seed: int) -> None:
    rng = Random(seed)
    for _ in range(25):
        text_automaton = random_text_automaton(rng)
        encoded = encode_utf8(text_automaton, Budget())
        for _ in range(30):
            data = random_text(rng, text_automaton).encode()
            assert encoded.accepts(data) == member(text_automaton, data.decode()), (data, text_automaton)
            data = mutated(rng, data)
            try:
                text = data.decode()
            except UnicodeDecodeError:
                text = None
            assert encoded.accepts(data) == member(text_automaton, text), (data, text_automaton)


@pytest.mark.parametrize("seed", range(4))
def test_json_spellings_are_those_that_python_reads(seed: int) -> None:
    rng = Random(seed)
    for _ in range(25):
        text_automaton = random_text_automaton(rng)
        encoded = encode_json_string(text_automaton, Budget())
        for _ in range(30):
            text = random_text(rng, text_automaton)
            for data in (
                spelling(rng, text).encode(),
                json.dumps(text)[1:-1].encode(),
                json.dumps(text, ensure_ascii=False)[1:-1].encode(),
            ):
                assert decoded_json(data) == text
                assert encoded.accepts(data) == member(text_automaton, text), (data, text_automaton)
                changed = mutated(rng, data)
                assert encoded.accepts(changed) == member(text_automaton, decoded_json(changed)), (
                    changed,
                    text_automaton,
                )


@pytest.mark.parametrize("seed", range(3))
def test_encodings_are_minimal_without_minimising(seed: int) -> None:
    rng = Random(seed)
    for _ in range(15):
        text_automaton = random_text_automaton(rng)
        for encoded in (encode_utf8(text_automaton, Budget()), encode_json_string(text_automaton, Budget())):
            check_dfa(encoded)
            assert minimise(encoded, Budget()) == encoded, text_automaton


@pytest.mark.parametrize(
    "text", [everything(ANY), characters(ANY), length_between(2, 5, Budget()), literal('a"\\é😀\x01')]
)
def test_everyday_encodings_are_minimal(text: Dfa) -> None:
    for encoded in (encode_utf8(text, Budget()), encode_json_string(text, Budget())):
        assert moore_state_count(encoded) == encoded.state_count
    plain = encode_json_string(text, Budget(), escapable=CodePoints(()))
    assert moore_state_count(plain) == plain.state_count


def test_every_character_once() -> None:
    """Each scalar value is one character of UTF-8 and has each of its spellings in JSON; nothing else is."""
    one = encode_utf8(characters(ANY), Budget())
    quoted = encode_json_string(characters(ANY), Budget())
    for code in [*range(0x3000), *range(0xD700, 0xE100), *range(0xFF00, 0x10500), *range(0x10FF00, 0x110000)]:
        character = chr(code)
        data = character.encode("utf-8", "surrogatepass")
        is_scalar = not 0xD800 <= code <= 0xDFFF
        assert one.accepts(data) == is_scalar
        assert quoted.accepts(data) == (is_scalar and code >= 0x20 and character not in '"\\')
        if code < 0x10000:
            assert quoted.accepts(b"\\u%04x" % code) == is_scalar
            assert quoted.accepts(b"\\u%04X" % code) == is_scalar
        else:
            escaped = json.dumps(character)[1:-1].encode()
            assert quoted.accepts(escaped)
            assert not quoted.accepts(escaped[:6])
            assert not quoted.accepts(escaped[6:])
            assert not quoted.accepts(escaped[6:] + escaped[:6])


def test_only_the_escapes_of_json() -> None:
    quoted = encode_json_string(characters(ANY), Budget())
    for letter in range(256):
        assert quoted.accepts(bytes([0x5C, letter])) == (letter in b'"\\/bfnrt')
    assert not quoted.accepts(b"\\u00g0")
    assert not quoted.accepts(b"\\u041")
    assert not quoted.accepts(b"\\U0041")


def test_characters_that_are_escaped_only_where_they_must_be() -> None:
    text = everything(ANY)
    plain = encode_json_string(text, Budget(), escapable=CodePoints(()))
    for data, accepted in (
        (b"a/\xc3\xa9", True),
        (b"\\/", False),
        (b"\\u0061", False),
        (b"\\u00e9", False),
        (b"\\n\\u000a\\u000A", True),
        (b'\\"\\u0022\\\\\\u005C', True),
        (b"\n", False),
        (b"\\ud83d\\ude00", False),
    ):
        assert plain.accepts(data) == accepted, data
    some = encode_json_string(text, Budget(), escapable=CodePoints.of("a😀"))
    assert some.accepts(b"\\u0061\\ud83d\\ude00a")
    assert not some.accepts(b"\\u0062")
    assert not some.accepts(b"\\ud83d\\ude01")


def test_nothing_and_the_empty_text() -> None:
    for encode in (encode_utf8, encode_json_string):
        assert encode(EMPTY_LANGUAGE, Budget()) == EMPTY_LANGUAGE
        assert encode(EMPTY_WORD, Budget()) == EMPTY_WORD


def test_half_a_surrogate_pair_has_no_encoding() -> None:
    """Python's strings, and JSON's, can hold one; texts as bytes cannot."""
    for encode in (encode_utf8, encode_json_string):
        assert encode(literal("a\ud800"), Budget()) == EMPTY_LANGUAGE
        assert encode(words(["a", "\udfffb"], Budget()), Budget()) == encode(literal("a"), Budget())
