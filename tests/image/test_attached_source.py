"""The source behind an image: found again, ignored by whoever opens the image, damage noticed."""

from __future__ import annotations

import random

import pytest

from shmcache.errors import SegmentError
from shmcache.grammar.key import Source
from shmcache.image.attached_source import attach_source, attached_source
from shmcache.image.image import open_image
from shmcache.vocabulary.sections import pack_sections
from tests.image.test_image import KEY, image_of, same, write_image

pytestmark = pytest.mark.reference

SOURCE = Source.json_schema({"type": "object", "properties": {"é": {"type": "string"}}}).to_bytes()


@pytest.mark.parametrize("length", [0, 1, 40, 5000])
def test_it_is_found_again_behind_images_of_any_length(length: int) -> None:
    image = pack_sections(b"12345678", 1, [length], []) + b""
    for source in (b"", SOURCE, SOURCE * length):
        assert attached_source(attach_source(image, source)) == source


def test_the_image_opens_as_before() -> None:
    image = image_of()
    data = attach_source(write_image(image), SOURCE)
    assert same(open_image(data, expected_key=KEY), image)
    assert attached_source(memoryview(data)) == SOURCE


def test_an_image_alone_has_none() -> None:
    data = write_image(image_of())
    assert attached_source(data) is None
    assert attached_source(data + bytes(-len(data) % 64)) is None
    assert attached_source(b"short") is None


def test_damage_is_a_typed_error_or_no_source() -> None:
    image = write_image(image_of())
    data = attach_source(image, SOURCE)
    rng = random.Random(7)
    refused = 0
    for _ in range(300):
        bad = bytearray(data)
        bad[rng.randrange(len(image), len(bad))] ^= 1 << rng.randrange(8)
        try:
            # What zlib's own checksum cannot tell is the source; without the magic there is none.
            assert attached_source(bad) in (SOURCE, None)
        except SegmentError:
            refused += 1
    assert refused > 150
    footer = data[-16:]
    for kept in range(len(data) - len(image) - 16):
        with pytest.raises(SegmentError):
            attached_source(data[len(data) - 16 - kept : -16] + footer)


@pytest.mark.parametrize(("length", "reason"), [(9_999, "length"), (1 << 31, "impossible")])
def test_a_source_that_unpacks_to_more_than_it_says_is_refused(length: int, reason: str) -> None:
    data = bytearray(attach_source(write_image(image_of()), b"\0" * 10_000))
    data[-4:] = length.to_bytes(4, "little")
    with pytest.raises(SegmentError, match=reason):
        attached_source(data)
