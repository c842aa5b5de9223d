"""``shmcache verify``: clean where all is well, and every kind of damage is named."""

from __future__ import annotations

import pytest

from shmcache.client import connect
from shmcache.grammar.key import Source
from shmcache.image import image as image_module
from shmcache.image.image import open_image, write_image
from shmcache.memory.layout import Tier
from shmcache.memory.names import Namespace, object_path
from shmcache.memory.objects import SEALED_MODE
from shmcache.memory.segments import create_segment, list_segments
from shmcache_tools.own_manager import own_manager
from tests.client.support import VOCABULARY, image_of
from tests.memory.support import Cache
from tests.tools.support import BYTES, check_columns, document, invoke

KEY = Source.regex("ab*c").key(VOCABULARY.fingerprint)


@pytest.fixture
def cache(namespace: str) -> Cache:
    """A cache at rest without a manager, with one sound grammar."""
    cache = Cache.create(Namespace.of(namespace))
    cache.add(KEY, image_of(Source.regex("ab*c")))
    return cache


def codes_of(namespace: str) -> list[str]:
    result = invoke("verify", "--namespace", namespace, "--json")
    findings = document(result.stdout)["findings"]
    assert result.exit_code == (6 if findings else 0)
    return [finding["code"] for finding in findings]


def test_a_cache_at_work_is_clean() -> None:
    with own_manager("test", workers=1) as names, connect(BYTES, names.name, autostart=False) as client:
        client.compile_regex("ab*c")
        client.compile_builtin_json_grammar()
        assert client.stats()["entries"]["vocabulary"] == 1
        result = invoke("verify", "--namespace", names.name)
        assert result.exit_code == 0, result.output
        assert "no findings" in result.output
        client.clear_cache()
        assert codes_of(names.name) == []


def test_a_cache_at_rest_is_clean(cache: Cache) -> None:
    result = invoke("verify", "--namespace", cache.namespace.name, "--json")
    assert result.exit_code == 0
    found = document(result.stdout)
    assert list(found) == ["slots", "entries", "payload_bytes", "findings"]
    assert found["entries"] == 1
    assert found["payload_bytes"] == len(image_of(Source.regex("ab*c")))


def test_a_flipped_bit_in_a_payload(cache: Cache) -> None:
    path = object_path(list_segments(cache.namespace.prefix)[0])
    path.chmod(0o640)
    data = bytearray(path.read_bytes())
    data[-5] ^= 4
    path.write_bytes(data)
    path.chmod(SEALED_MODE)
    assert set(codes_of(cache.namespace.name)) == {"FILE_DAMAGED", "PAYLOAD_DAMAGED"}


def test_an_image_whose_checksums_are_right_and_whose_indices_are_not(
    cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = open_image(image_of(Source.regex("x{3}")))
    image.rows.state_accepted.flags.writeable = False
    rows = type(image.rows)(*[array.copy() for array in image.rows.arrays()])
    rows.state_accepted[:] = 1 << 20
    with monkeypatch.context() as patch:
        patch.setattr(image_module, "_check_bounds", lambda _: None)
        wrong = type(image)(
            image.key,
            image.vocabulary_fingerprint,
            image.vocabulary_size,
            image.width,
            image.automaton,
            rows,
            image.warnings,
        )
        payload = write_image(wrong)
    cache.add(image.key, payload)
    assert codes_of(cache.namespace.name) == ["PAYLOAD_DAMAGED"]


@pytest.mark.parametrize("tier", [Tier.GRAMMAR, Tier.VOCABULARY])
def test_a_sound_segment_of_something_else(cache: Cache, tier: Tier) -> None:
    cache.add(bytes(31) + b"x", b"not what its tier says", tier=tier)
    result = invoke("verify", "--namespace", cache.namespace.name)
    assert result.exit_code == 6
    assert "PAYLOAD_DAMAGED" in result.output
    assert "1 finding" in result.output
    check_columns("\n".join(line for line in result.output.splitlines() if "/shmc-" not in line))


def test_a_grammar_under_the_key_of_another(cache: Cache) -> None:
    cache.add(bytes(31) + b"x", image_of(Source.regex("ab*c")))
    assert codes_of(cache.namespace.name) == ["PAYLOAD_DAMAGED"]


def test_slots_files_and_totals_are_walked_too(cache: Cache) -> None:
    name = cache.namespace.data_name(cache.control.instance, 77)
    create_segment(name, [b"stray"], key=KEY, generation=1, tier=Tier.GRAMMAR)
    cache.control.words[40] += 1
    assert set(codes_of(cache.namespace.name)) == {"TOTALS", "FILE_STRAY"}


def test_a_missing_recency_segment(cache: Cache) -> None:
    object_path(cache.namespace.recency_name).unlink()
    assert codes_of(cache.namespace.name) == ["RECENCY"]


def test_what_only_one_of_two_walks_found_is_none(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    """A manager at work: its file is there before its slot is."""
    name = cache.namespace.data_name(cache.control.instance, 77)
    create_segment(name, [b"passing"], key=KEY, generation=1, tier=Tier.GRAMMAR)
    from shmcache_tools import verification

    walk = verification._walk

    def walk_then_finish(view: object) -> object:
        found = walk(view)  # type: ignore[arg-type]
        object_path(name).unlink(missing_ok=True)
        return found

    monkeypatch.setattr(verification, "_walk", walk_then_finish)
    assert codes_of(cache.namespace.name) == []


@pytest.mark.parametrize("squatted", ["mode", "content", "version"])
def test_what_cannot_be_read_is_incompatible(cache: Cache, squatted: str) -> None:
    path = object_path(cache.namespace.control_name)
    if squatted == "mode":
        path.chmod(0o644)
    else:
        cache.control.words[0 if squatted == "content" else 1] = 99
    assert invoke("verify", "--namespace", cache.namespace.name).exit_code == 5
