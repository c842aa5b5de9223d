"""The trie: equal to its slow twin on any vocabulary, and refused when its bytes are not what was written."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from shmcache.errors import SegmentError
from shmcache.vocabulary.sections import pack_sections
from shmcache.vocabulary.trie import Trie
from shmcache.vocabulary.vocabulary import Vocabulary
from tests.reference.trie import reference_trie

pytestmark = pytest.mark.reference

# Few distinct bytes, so that tokens share prefixes, repeat, and are prefixes of each other.
_CLOSE_TOKENS = st.binary(max_size=6).map(lambda data: bytes(b"ab\x00\xff\xc3"[byte % 5] for byte in data))
_LONG_TOKENS = st.builds(lambda tail, count: b"a" * count + tail, st.binary(max_size=3), st.integers(1_000, 1_200))
_TOKENS = st.lists(
    st.one_of(st.none(), _CLOSE_TOKENS, _CLOSE_TOKENS, st.binary(max_size=12), _LONG_TOKENS), min_size=1, max_size=40
)


@st.composite
def vocabularies(draw: st.DrawFn) -> tuple[list[bytes | None], set[int], int]:
    """Tokens, special ids, width."""
    tokens = draw(_TOKENS)
    special = draw(st.sets(st.integers(0, len(tokens) - 1), max_size=5))
    return tokens, special, draw(st.integers(1, len(tokens) + 70))


def assert_same_as_reference(trie: Trie, tokens: list[bytes | None], special: set[int], width: int) -> None:
    expected = reference_trie(tokens, special, width)
    assert trie.node_byte.tolist() == expected.node_byte
    assert trie.node_depth.tolist() == expected.node_depth
    assert trie.node_end.tolist() == expected.node_end
    assert trie.node_height.tolist() == expected.node_height
    assert trie.node_first_token.tolist() == expected.node_first_token
    assert trie.token_order.tolist() == expected.token_order
    assert trie.token_node.tolist() == expected.token_node
    assert trie.longest_token_bytes == max(expected.node_depth)
    children = {expected.node_byte[node]: node for node, depth in enumerate(expected.node_depth) if depth == 1}
    assert trie.first_node.tolist() == [children.get(byte, -1) for byte in range(256)]
    counts = {byte: expected.node_end[node] - node for byte, node in children.items()}
    assert trie.first_byte_nodes().tolist() == [counts.get(byte, 0) for byte in range(256)]
    bits = np.unpackbits(trie.text_bitmask.view(np.uint8), bitorder="little")
    assert len(bits) == -(-width // 32) * 32
    assert np.flatnonzero(bits).tolist() == expected.text_token_ids


@settings(max_examples=150, deadline=None)
@given(vocabularies())
@example(([b"", None, b"only special"], {2}, 3))
@example(([b"a", b"a", b"a"], set(), 2))
@example(([b"\xff", b"\x00", b"\xff\x00", b"\x80"], set(), 64))
def test_equals_the_twin_when_built_and_when_opened(case: tuple[list[bytes | None], set[int], int]) -> None:
    tokens, special, width = case
    vocabulary = Vocabulary(tokens, special, width=width)
    assert_same_as_reference(vocabulary.trie, tokens, special, width)
    opened = Trie.from_buffer(vocabulary.trie.to_bytes())
    assert_same_as_reference(opened, tokens, special, width)
    assert opened.fingerprint == vocabulary.fingerprint
    vocabulary.attach_trie(opened)
    assert vocabulary.trie is opened


def test_every_array_is_read_only_with_its_stated_type() -> None:
    built = Vocabulary([b"a", b"ab", None]).trie
    for trie in (built, Trie.from_buffer(built.to_bytes())):
        for array in (*trie._arrays(), trie.first_node):
            assert array.dtype == (np.uint8 if array is trie.node_byte else np.int32)
            assert array.flags.c_contiguous
            assert array.flags.aligned
            assert not array.flags.writeable


def test_opening_copies_nothing() -> None:
    data = Vocabulary([b"a", b"ab", b"b"]).trie.to_bytes()
    whole = np.frombuffer(data, dtype=np.uint8)
    for array in Trie.from_buffer(data)._arrays():
        assert np.shares_memory(array, whole)


def test_opens_from_a_longer_mapping() -> None:
    trie = Vocabulary([b"a", b"ab", b"b"]).trie
    opened = Trie.from_buffer(trie.to_bytes() + bytes(4096))
    assert opened.token_order.tolist() == trie.token_order.tolist()


@pytest.mark.parametrize("stage", ["truncated", "flipped"])
def test_any_damage_is_refused(stage: str) -> None:
    data = Vocabulary([b"a", b"ab", b"b", b"\xff"]).trie.to_bytes()
    for position in range(len(data)):
        damaged = bytearray(data[:position] if stage == "truncated" else data)
        if stage == "flipped":
            damaged[position] ^= 0x10
        with pytest.raises(SegmentError):
            Trie.from_buffer(damaged)


def test_a_misaligned_buffer_is_refused() -> None:
    data = Vocabulary([b"a", b"ab"]).trie.to_bytes()
    room = bytearray(len(data) + 16)
    start = 1 - np.frombuffer(room, dtype=np.uint8).ctypes.data % 8 + 8
    room[start : start + len(data)] = data
    with pytest.raises(SegmentError, match="multiple of 8"):
        Trie.from_buffer(memoryview(room)[start:])


def _sections(**changes: object) -> bytes:
    """The trie of a, ab, b with some array or word replaced, under a correct checksum."""
    trie = Vocabulary([b"a", b"ab", b"b"]).trie
    names = ["node_byte", "node_depth", "node_end", "node_height"]
    names += ["node_first_token", "token_order", "token_node", "text_bitmask"]
    arrays = [np.asarray(changes.get(name, getattr(trie, name)), dtype=getattr(trie, name).dtype) for name in names]
    width, longest = changes.get("width", trie.width), changes.get("longest", trie.longest_token_bytes)
    assert isinstance(width, int)
    assert isinstance(longest, int)
    return pack_sections(b"SHMCtri\0", 2, (0, 0, 0, 0, width, longest), arrays)


@pytest.mark.parametrize(
    "changes",
    [
        {"node_byte": [0, 97]},
        {"node_byte": []},
        {"node_end": []},
        {"node_end": [4, 3, 9, 4]},
        {"node_end": [4, 1, 3, 4]},
        {"node_end": [3, 3, 3, 4]},
        {"node_height": [2, 1, 0, -1]},
        {"node_height": [3, 1, 0, 0]},
        {"node_height": [2, 1, 0]},
        {"node_depth": [0, 1, 3, 1]},
        {"node_depth": [0, 1, 0, 1]},
        {"node_depth": [1, 1, 2, 1]},
        {"node_depth": [0, 1, 2]},
        {"node_first_token": [0, 0, 1, 2, 4]},
        {"node_first_token": [0, 2, 1, 2, 3]},
        {"node_first_token": [1, 1, 1, 2, 3]},
        {"token_order": [0, 1, 3]},
        {"token_order": [0, 1, -1]},
        {"token_node": [1, 2, 4]},
        {"token_node": [1, 2, -2]},
        {"text_bitmask": [7, 0]},
        {"width": 0},
        {"width": 1 << 40},
        {"width": 2},
        {"longest": 3},
        {"longest": 1 << 20},
    ],
)
def test_an_index_out_of_bounds_is_refused(changes: dict[str, object]) -> None:
    assert Trie.from_buffer(_sections()).node_count == 4
    with pytest.raises(SegmentError):
        Trie.from_buffer(_sections(**changes))


def test_another_vocabularys_trie_is_not_attached() -> None:
    with pytest.raises(SegmentError, match="another vocabulary"):
        Vocabulary([b"a", b"b"]).attach_trie(Vocabulary([b"a", b"c"]).trie)
