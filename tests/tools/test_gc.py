"""``shmcache gc``: order without a manager, and hands off where one is alive."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from shmcache.memory.election import holder_pid
from shmcache.memory.layout import Tier
from shmcache.memory.names import Namespace, object_path
from shmcache.memory.objects import list_objects
from shmcache.memory.reader import SharedCache
from shmcache.memory.segments import create_segment, list_segments, map_segment
from shmcache_tools.own_manager import own_manager
from tests.manager.live import key, manager_process
from tests.memory.support import Cache, key_of
from tests.tools.support import check_columns, document, invoke


@pytest.fixture
def cache(namespace: str) -> Cache:
    """A cache whose manager is gone."""
    return Cache.create(Namespace.of(namespace))


def tidied(cache: Cache) -> dict[str, int]:
    result = invoke("gc", "--namespace", cache.namespace.name, "--json")
    assert result.exit_code == 0, result.output
    found: dict[str, int] = document(result.stdout)
    return found


def states(cache: Cache) -> list[str]:
    reader = SharedCache.open(cache.namespace)
    return sorted(f"{entry.state.name} {entry.generation}" for entry in reader.index.read_all())


def is_clean(cache: Cache) -> bool:
    # What is no image is a finding of its own; these tests have payloads of plain text.
    findings = document(invoke("verify", "--namespace", cache.namespace.name, "--json").stdout)["findings"]
    return all(finding["code"] == "PAYLOAD_DAMAGED" for finding in findings)


def test_a_living_manager_is_left_alone() -> None:
    with own_manager("test", workers=1) as names:
        before = sorted(list_objects(names.prefix))
        result = invoke("gc", "--namespace", names.name)
        assert result.exit_code == 1
        assert "alive" in result.stderr
        check_columns(result.stderr.replace(names.name, ""))
        as_json = invoke("gc", "--namespace", names.name, "--json")
        assert as_json.exit_code == 1
        assert document(as_json.stdout)["manager"]["pid"] == holder_pid(names)
        assert sorted(list_objects(names.prefix)) == before


def test_what_a_killed_manager_left_goes_and_its_entries_stay(namespace: str) -> None:
    with manager_process(namespace, expected_exit=-signal.SIGKILL) as live:
        asker = live.asker()
        asker.give_vocabulary()
        assert asker.compile("kept").serial > 0
        os.kill(live.pid, signal.SIGKILL)
    names = Namespace.of(namespace)
    stray = names.data_name(1, 1)
    create_segment(stray, [b"of another instance"], key=key_of(9), generation=1, tier=Tier.RULE)
    assert names.socket_path.exists()
    result = invoke("gc", "--namespace", namespace)
    assert result.exit_code == 0, result.output
    assert not object_path(stray).exists()
    assert not names.socket_path.exists()
    assert holder_pid(names) is None
    assert SharedCache.open(names).index.look_up(key("kept")) is not None
    with manager_process(namespace) as live:
        asker = live.asker()
        assert asker.look_up("kept") is not None
        assert live.findings() == []


def test_half_made_and_ended_entries_go(cache: Cache) -> None:
    old = cache.add(key_of(1), b"of before the clear")
    cache.index.raise_generation()
    cache.add(key_of(2), b"valid")
    filling = cache.index.reserve(
        key_of(3), tier=Tier.RULE, generation=2, serial=cache.control.next_serial(), reserved_bytes=4096, owner=3
    )
    assert filling is not None
    unfinished = object_path(cache.namespace.data_name(cache.control.instance, filling.serial) + ".new")
    unfinished.write_bytes(b"half")
    found = tidied(cache)
    assert states(cache) == ["READY 2"]
    assert not unfinished.exists()
    assert not object_path(cache.namespace.data_name(cache.control.instance, old.serial)).exists()
    assert (found["entries"], found["retired_bytes"]) == (1, 0)
    assert found["bytes_after"] < found["bytes_before"]
    assert found["objects_after"] == found["objects_before"] - 2
    assert is_clean(cache)


def test_what_is_mapped_stays_until_it_is_let_go(cache: Cache) -> None:
    entry = cache.add(key_of(1), b"still read")
    mapping = map_segment(cache.namespace.data_name(cache.control.instance, entry.serial))
    cache.index.raise_generation()
    assert tidied(cache)["retired_bytes"] == 4096
    assert states(cache) == ["ZOMBIE 1"]
    assert bytes(mapping.payload) == b"still read"
    del mapping
    assert tidied(cache)["retired_bytes"] == 0
    assert states(cache) == []
    assert list_segments(cache.namespace.prefix) == []


def test_the_limit_and_the_generation_stay(cache: Cache) -> None:
    cache.control.set_limit(1 << 20)
    cache.index.raise_generation()
    cache.add(key_of(1), b"payload")
    tidied(cache)
    assert SharedCache.open(cache.namespace).control.limit_bytes == 1 << 20
    assert cache.control.generation == 2
    assert cache.control.manager().state.name == "ABSENT"


def test_it_may_be_said_again_and_again(cache: Cache) -> None:
    cache.add(key_of(1), b"payload")
    first, second = tidied(cache), tidied(cache)
    assert first["objects_after"] == second["objects_before"] == second["objects_after"]


@pytest.mark.parametrize("ended", ["no control segment", "another boot", "dissolved"])
def test_what_can_never_be_found_again_goes_altogether(cache: Cache, ended: str) -> None:
    cache.add(key_of(1), b"payload")
    if ended == "no control segment":
        object_path(cache.namespace.control_name).unlink()
    elif ended == "another boot":
        cache.control.words[0] = 0
    else:
        cache.control.dissolve()
    assert tidied(cache)["objects_after"] == 0
    assert list_objects(cache.namespace.prefix) == []
    assert invoke("gc", "--namespace", cache.namespace.name).exit_code == 4


def test_a_squatted_control_segment_is_neither_used_nor_removed(cache: Cache) -> None:
    cache.add(key_of(1), b"payload")
    path = object_path(cache.namespace.control_name)
    path.chmod(0o666)
    before = list_objects(cache.namespace.prefix)
    assert invoke("gc", "--namespace", cache.namespace.name).exit_code == 5
    assert set(before) <= set(list_objects(cache.namespace.prefix))


def test_no_manager_starts_while_it_works(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    from shmcache_tools.commands import gc

    tidy, codes = gc.tidy, list[int]()

    def start_a_manager_and_tidy(names: Namespace) -> object:
        command = [sys.executable, "-m", "shmcache.manager", "--namespace", names.name]
        codes.append(subprocess.run(command, capture_output=True, timeout=60, check=False).returncode)
        return tidy(names)

    monkeypatch.setattr(gc, "tidy", start_a_manager_and_tidy)
    assert invoke("gc", "--namespace", cache.namespace.name).exit_code == 0
    assert codes == [3], "another manager got in"
    assert holder_pid(cache.namespace) is None
