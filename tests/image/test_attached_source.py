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


def test_damage_is_a_typed_error() -> None:
    image = write_image(image_of())
    data = attach_source(image, SOURCE)
    rng = random.Random(7)
    refused = 0
    for _ in range(300):
        bad = bytearray(data)
        bad[rng.randrange(len(image) + -len(image) % 64, len(bad))] ^= 1 << rng.randrange(8)
        try:
            # What zlib's own checksum cannot tell is the source.
            assert attached_source(bad) == SOURCE
        except SegmentError:
            refused += 1
    assert refused > 250
    for length in range(len(data) - 30, len(data)):
        with pytest.raises(SegmentError):
            attached_source(data[:length])
    with pytest.raises(SegmentError, match="too few"):
        attached_source(b"short")


def test_a_source_that_unpacks_to_more_than_it_says_is_refused() -> None:
    image = write_image(image_of())
    data = bytearray(attach_source(image, b"\0" * 10_000))
    start = len(image) + -len(image) % 64
    data[start + 12 : start + 16] = (9_999).to_bytes(4, "little")
    with pytest.raises(SegmentError, match="length"):
        attached_source(data)
