"""The vocabulary: which ids are text, what the fingerprint covers, the exact round trip, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shmcache.errors import LimitError, SegmentError
from shmcache.limits import TOKEN_BYTES_MAX, TOKEN_COUNT_MAX
from shmcache.vocabulary.sections import pack_sections
from shmcache.vocabulary.vocabulary import Vocabulary

pytestmark = pytest.mark.reference


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.one_of(st.none(), st.binary(max_size=9)), min_size=1, max_size=30),
    st.data(),
)
def test_round_trip_keeps_everything(tokens: list[bytes | None], data: st.DataObject) -> None:
    ids = st.integers(0, len(tokens) - 1)
    stop = data.draw(st.sets(ids, max_size=2))
    special = data.draw(st.sets(ids, max_size=3))
    width = data.draw(st.integers(max(stop, default=0) + 1, len(tokens) + 40))
    vocabulary = Vocabulary(tokens, special, stop, width)
    restored = Vocabulary.from_bytes(vocabulary.to_bytes())
    for each in (vocabulary, restored):
        assert each.size == len(each) == len(tokens)
        assert each.width == width
        assert each.special_token_ids == tuple(sorted(special | stop))
        assert each.stop_token_ids == tuple(sorted(stop))
        for token_id, token in enumerate(tokens):
            assert each.token_bytes(token_id) == (token or b"")
            assert each.is_gap(token_id) == (token is None)
        text = [i for i, token in enumerate(tokens) if token and i < width and i not in special | stop]
        assert [i for i in range(-2, len(tokens) + 50) if each.is_text(i)] == text
        assert each.text_token_ids().tolist() == text
    assert restored == vocabulary
    assert restored.to_bytes() == vocabulary.to_bytes()


def test_flat_arrays() -> None:
    flat = Vocabulary([b"ab", None, b"", b"\xff"]).flat
    assert flat.offsets.dtype == np.int64
    assert flat.offsets.tolist() == [0, 2, 2, 2, 3]
    assert flat.blob.dtype == np.uint8
    assert flat.blob.tobytes() == b"ab\xff"
    assert not flat.offsets.flags.writeable
    assert not flat.blob.flags.writeable


def test_fingerprint_covers_everything() -> None:
    base = [b"a", b"bc", None, b"d"]
    variants = [
        Vocabulary(base),
        Vocabulary(base, [3]),
        Vocabulary(base, [3], [3]),
        Vocabulary(base, [2, 3], [3]),
        Vocabulary(base, width=5),
        Vocabulary(base, width=3),
        Vocabulary([b"ab", b"c", None, b"d"]),
        Vocabulary([b"a", b"bc", b"", b"d"]),
        Vocabulary([b"a", None, b"bc", b"d"]),
        Vocabulary([*base, b""]),
        Vocabulary([*base, b""], width=4),
    ]
    assert len({vocabulary.fingerprint for vocabulary in variants}) == len(set(variants)) == len(variants)
    assert all(len(vocabulary.fingerprint) == 32 for vocabulary in variants)
    same = Vocabulary(base, (3, 3), stop_token_ids=[3], width=4)
    assert same == variants[2]
    assert hash(same) == hash(variants[2])
    assert same != "a vocabulary"


def test_ids_outside_are_refused() -> None:
    tokens = [b"a", b"b", b"c"]
    for special, stop, width in [([3], [], None), ([-1], [], None), ([], [3], None), ([], [2], 2), ([], [], 0)]:
        with pytest.raises(ValueError, match=r"outside|below|at least"):
            Vocabulary(tokens, special, stop, width)
    with pytest.raises(ValueError, match="at least"):
        Vocabulary([])
    assert Vocabulary(tokens, [2], width=2).special_token_ids == (2,)
    with pytest.raises(IndexError):
        Vocabulary(tokens).token_bytes(3)
    with pytest.raises(IndexError):
        Vocabulary(tokens).token_bytes(-1)
    assert Vocabulary(tokens).is_gap(3)


def test_tokens_must_be_bytes() -> None:
    with pytest.raises(TypeError, match="token 1 is str"):
        Vocabulary([b"a", "b"])  # type: ignore[list-item]


def test_limits() -> None:
    assert Vocabulary([bytes(TOKEN_BYTES_MAX)]).trie.longest_token_bytes == TOKEN_BYTES_MAX
    with pytest.raises(LimitError) as caught:
        Vocabulary([bytes(TOKEN_BYTES_MAX + 1)])
    assert caught.value.limit == "token_bytes"
    with pytest.raises(LimitError) as caught:
        Vocabulary([b"a"], width=TOKEN_COUNT_MAX + 1)
    assert caught.value.limit == "width"


@pytest.mark.parametrize("stage", ["truncated", "flipped"])
def test_any_damage_is_refused(stage: str) -> None:
    data = Vocabulary([b"a", b"ab", None, b"</s>"], [3], [3]).to_bytes()
    for position in range(len(data)):
        damaged = bytearray(data[:position] if stage == "truncated" else data)
        if stage == "flipped":
            damaged[position] ^= 0x01
        with pytest.raises(SegmentError):
            Vocabulary.from_bytes(damaged)


@pytest.mark.parametrize(
    ("words", "offsets", "blob", "gaps", "special", "stop"),
    [
        ((2, 2), [0, 1, 1], b"a", [0, 2], [], []),
        ((2, 2), [0, 1, 2], b"a", [0, 0], [], []),
        ((2, 2), [1, 1, 1], b"a", [0, 0], [], []),
        ((3, 2), [0, 2, 1, 2], b"ab", [0, 0, 0], [], []),
        ((3, 2), [0, 1, 1], b"a", [0, 0], [], []),
        ((2, 2), [0, 1, 1], b"a", [0], [], []),
        ((2, 2), [0, 1, 1], b"a", [0, 0], [2], []),
        ((2, 2), [0, 1, 1], b"a", [0, 0], [], [-1]),
        ((2, 1), [0, 1, 1], b"a", [0, 0], [], [1]),
        ((2, 0), [0, 1, 1], b"a", [0, 0], [], []),
        ((2, 1 << 60), [0, 1, 1], b"a", [0, 0], [], []),
        ((0, 1), [], b"", [], [], []),
    ],
)
def test_inconsistent_contents_are_refused_under_a_correct_checksum(
    words: tuple[int, int], offsets: list[int], blob: bytes, gaps: list[int], special: list[int], stop: list[int]
) -> None:
    arrays = (
        np.array(offsets, dtype=np.int64),
        np.frombuffer(blob, dtype=np.uint8),
        np.array(gaps, dtype=np.uint8),
        np.array(special, dtype=np.int64),
        np.array(stop, dtype=np.int64),
    )
    with pytest.raises(SegmentError):
        Vocabulary.from_bytes(pack_sections(b"SHMCvoc\0", 1, words, arrays))


def test_a_foreign_or_newer_segment_is_refused() -> None:
    vocabulary = Vocabulary([b"a"])
    with pytest.raises(SegmentError, match="foreign"):
        Vocabulary.from_bytes(vocabulary.trie.to_bytes())
    with pytest.raises(SegmentError, match="version 2"):
        Vocabulary.from_bytes(pack_sections(b"SHMCvoc\0", 2, (1, 1), ()))
    with pytest.raises(SegmentError, match="too few"):
        Vocabulary.from_bytes(b"")
