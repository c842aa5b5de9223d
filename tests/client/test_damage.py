"""Damage of what lies in shared memory: never another mask, and as a rule no error either."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import numpy as np
import pytest

from shmcache.client import GrammarCache
from shmcache.errors import SegmentError
from shmcache.grammar.key import Source
from shmcache.image.attached_source import attached_source
from shmcache.image.image import write_image
from shmcache.manager.client_messages import Evict
from shmcache.matcher.bitmask import allocate_token_bitmask
from shmcache.matcher.compiled_grammar import CompiledGrammar
from shmcache.matcher.matcher import GrammarMatcher
from shmcache.memory.names import object_path
from shmcache.memory.segments import HEADER_BYTES
from shmcache.vocabulary.sections import stored_bytes
from tests.client.support import VOCABULARY, FakeManager, image_of

Client = Callable[[], GrammarCache]

TEXT = '{"type": "object", "properties": {"name": {"type": "string", "maxLength": 3}}, "required": ["name"]}'
SOURCE = Source.json_schema(TEXT)
KEY = SOURCE.key(VOCABULARY.fingerprint)


def damage(manager: FakeManager, change: Callable[[bytearray], None]) -> None:
    """Changes the payload of the grammar's segment as it lies there; it is mapped by nobody yet."""
    entry = manager.cache.index.look_up(KEY)
    assert entry is not None
    path = object_path(manager.namespace.data_name(manager.cache.control.instance, entry.serial))
    content = path.read_bytes()
    payload = bytearray(content[HEADER_BYTES:])
    change(payload)
    assert len(payload) == len(content) - HEADER_BYTES
    path.chmod(0o600)
    path.write_bytes(content[:HEADER_BYTES] + payload)
    path.chmod(0o440)


def in_arrays(payload: bytearray) -> None:
    """One byte between the tables at the beginning of an image and its end."""
    place = stored_bytes(payload) - 70
    payload[place] ^= 0x10


def masks(grammar: CompiledGrammar) -> list[list[int]]:
    """Of each step of a text."""
    matcher, row, found = GrammarMatcher(grammar), allocate_token_bitmask(1, VOCABULARY.width), []
    for byte in b'{"name": "ab"':
        matcher.fill_next_token_bitmask(row)
        found.append(row[0].tolist())
        assert matcher.accept_token(byte)
    return found


@pytest.fixture
def right(manager: FakeManager, client: Client) -> list[list[int]]:
    """The masks, of the process that had it compiled."""
    return masks(client().compile_json_schema(TEXT))


def test_a_damaged_image_is_compiled_anew_when_it_is_needed(
    manager: FakeManager, client: Client, right: list[list[int]], caplog: pytest.LogCaptureFixture
) -> None:
    damage(manager, in_arrays)
    cache = client()
    grammar = cache.compile_json_schema(TEXT)
    assert manager.count(Evict) == 0
    assert masks(grammar) == right
    assert (manager.count(Evict), manager.grammar_compiles()) == (1, 2)
    assert "damaged" in caplog.text
    assert write_image(grammar.image) == image_of(SOURCE)
    assert cache.compile_json_schema(TEXT) is grammar
    assert masks(client().compile_json_schema(TEXT)) == right
    assert (manager.count(Evict), manager.grammar_compiles()) == (1, 2)


def test_without_a_manager_it_is_compiled_here(manager: FakeManager, client: Client, right: list[list[int]]) -> None:
    damage(manager, in_arrays)
    cache = client()
    grammar = cache.compile_json_schema(TEXT)
    cache.close()
    assert masks(grammar) == right


def test_where_the_source_is_damaged_too_the_request_is_told(
    manager: FakeManager, client: Client, right: list[list[int]]
) -> None:
    def change(payload: bytearray) -> None:
        in_arrays(payload)
        payload[-30] ^= 1
        with pytest.raises(SegmentError):
            attached_source(payload)

    damage(manager, change)
    grammar = client().compile_json_schema(TEXT)
    with pytest.raises(SegmentError):
        masks(grammar)
    assert manager.count(Evict) == 1
    assert masks(client().compile_json_schema(TEXT)) == right
    assert manager.grammar_compiles() == 2


def test_a_damaged_first_mask_is_noticed_before_anybody_has_it(
    manager: FakeManager, client: Client, right: list[list[int]]
) -> None:
    def change(payload: bytearray) -> None:
        start = -(-stored_bytes(payload) // 8) * 8
        payload[start + 17] ^= 1

    damage(manager, change)
    grammar = client().compile_json_schema(TEXT)
    assert (manager.count(Evict), manager.grammar_compiles()) == (1, 2)
    assert masks(grammar) == right


@pytest.mark.parametrize("seed", range(12))
def test_whatever_is_changed_no_mask_is_another(
    manager: FakeManager, client: Client, right: list[list[int]], seed: int
) -> None:
    rng = Random(seed)

    def change(payload: bytearray) -> None:
        for _ in range(rng.choice([1, 1, 8])):
            start = rng.randrange(len(payload))
            length = rng.choice([1, 1, 8, 64, 4096])
            payload[start : start + length] = rng.randbytes(len(payload[start : start + length]))

    damage(manager, change)
    grammar = client().compile_json_schema(TEXT)
    matcher, row = GrammarMatcher(grammar), allocate_token_bitmask(1, VOCABULARY.width)
    matcher.fill_next_token_bitmask(row)
    assert np.array_equal(row[0], right[0])
    try:
        assert masks(grammar) == right
    except SegmentError:
        assert masks(client().compile_json_schema(TEXT)) == right
