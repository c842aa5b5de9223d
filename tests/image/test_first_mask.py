"""The first mask behind an image: found again, ignored by whoever opens the image, damage noticed."""

from __future__ import annotations

import random

import numpy as np
import pytest

from shmcache.errors import SegmentError
from shmcache.image.attached_source import attach_source, attached_source
from shmcache.image.first_mask import FirstMask, first_mask, with_first_mask
from shmcache.image.image import find_image, open_image
from tests.image.test_image import KEY, image_of, same, write_image

pytestmark = pytest.mark.reference

WORDS = 50


def mask_of(rng: random.Random, count: int) -> FirstMask:
    index = np.array(sorted(rng.sample(range(WORDS), count)), dtype=np.int32)
    value = np.array([rng.randrange(-(1 << 31), 1 << 31) for _ in range(count)], dtype=np.int32)
    return FirstMask(index, value, rng.random() < 0.5, rng.random() < 0.5)


def are_same(one: FirstMask, other: FirstMask) -> bool:
    flags = (one.may_end, one.has_whole_tokens) == (other.may_end, other.has_whole_tokens)
    return flags and np.array_equal(one.index, other.index) and np.array_equal(one.value, other.value)


@pytest.mark.parametrize("count", [0, 1, 7, WORDS])
@pytest.mark.parametrize("source", [None, b"", b"source" * 100])
def test_it_is_found_again_and_so_is_the_rest(count: int, source: bytes | None) -> None:
    mask = mask_of(random.Random(count), count)
    image = image_of()
    payload = with_first_mask(write_image(image), mask)
    if source is not None:
        payload = attach_source(payload, source)
    found = first_mask(payload, WORDS)
    assert found is not None
    assert are_same(found, mask)
    assert not found.value.flags.writeable
    assert same(open_image(payload, expected_key=KEY), image)
    assert same(find_image(payload, expected_key=KEY).open(), image)
    assert attached_source(payload) == source


def test_an_image_without_one_has_none() -> None:
    image = write_image(image_of())
    for payload in (image, image + bytes(7), image + bytes(64), attach_source(image, b"source"), b"", b"short"):
        assert first_mask(payload, WORDS) is None


@pytest.mark.parametrize("seed", range(10))
def test_damage_is_noticed(seed: int) -> None:
    """Any flipped bit of it is an error, or, in its magic, as if there were none; cut off it is one or the other."""
    rng = random.Random(seed)
    image = write_image(image_of())
    whole = with_first_mask(image, mask_of(rng, 9))
    start = -(-len(image) // 8) * 8
    for position in range(start, len(whole)):
        data = bytearray(whole)
        data[position] ^= 1 << rng.randrange(8)
        if position < start + 8:
            assert first_mask(data, WORDS) is None
        else:
            with pytest.raises(SegmentError):
                first_mask(data, WORDS)
    for end in range(start, len(whole)):
        if end < start + 16:
            assert first_mask(whole[:end], WORDS) is None
        else:
            with pytest.raises(SegmentError):
                first_mask(whole[:end], WORDS)


@pytest.mark.parametrize("words", [[-1, 3], [0, WORDS]])
def test_words_that_a_mask_does_not_have_are_refused(words: list[int]) -> None:
    index = np.array(words, dtype=np.int32)
    payload = with_first_mask(write_image(image_of()), FirstMask(index, index, False, False))
    with pytest.raises(SegmentError, match="another vocabulary"):
        first_mask(payload, WORDS)
