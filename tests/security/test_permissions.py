"""Everything that a running cache makes is closed to others, whatever the umask; what others made is not used."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from shmcache.errors import SegmentError
from shmcache.manager.recovery import recover
from shmcache.memory.control import create_control, open_control_reader
from shmcache.memory.election import ManagerLock
from shmcache.memory.names import Namespace, object_path
from shmcache.memory.objects import list_objects
from shmcache.memory.reader import SharedCache
from shmcache.memory.recency import create_recency, open_recency
from shmcache.memory.segments import create_segment, map_segment
from tests.manager.live import manager_process
from tests.memory.support import Cache, key_of, own_namespace

EXPECTED_MODES = {".ctl": 0o600, ".rdr": 0o600, ".lck": 0o600}
SEALED = 0o440


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


@pytest.mark.parametrize("mask", [0o000, 0o077])
def test_objects_of_a_running_cache(namespace: str, mask: int) -> None:
    with umask(mask), manager_process(namespace) as live:
        asker = live.asker()
        asker.give_vocabulary()
        asker.compile("g")
        names = live.namespace
        modes = {name.removeprefix(names.prefix): mode_of(object_path(name)) for name in list_objects(names.prefix)}
        assert {name: modes.pop(name) for name in EXPECTED_MODES} == EXPECTED_MODES
        assert len(modes) >= 2
        assert set(modes.values()) == {SEALED}
        assert mode_of(names.directory) == 0o700
        assert mode_of(names.socket_path) == 0o600
        assert stat.S_ISSOCK(names.socket_path.lstat().st_mode)
        assert mode_of(names.lock_path) == 0o600
        assert all(object_path(name).stat().st_uid == os.geteuid() for name in list_objects(names.prefix))


def test_a_new_runtime_directory_is_closed_whatever_the_umask(tmp_path: Path) -> None:
    with umask(0):
        namespace = Namespace.of("x", directory=tmp_path / "runtime")
        namespace.make_directory()
    assert mode_of(namespace.directory) == 0o700


@pytest.mark.parametrize("what", ["control", "recency", "segment", "unfinished", "lock"])
def test_a_symbolic_link_in_place_of_an_object_is_refused(what: str, tmp_path: Path) -> None:
    target = tmp_path / "precious"
    target.write_bytes(b"precious")
    target.chmod(0o600)
    with own_namespace() as names:
        data = names.data_name(1, 1)
        links = {"control": names.control_name, "recency": names.recency_name, "segment": data}
        links |= {"unfinished": data + ".new", "lock": names.prefix + ".lck"}
        object_path(links[what]).symlink_to(target)
        uses: dict[str, Callable[[], object]] = {
            "control": lambda: open_control_reader(names),
            "recency": lambda: open_recency(names, create_control(names, home_count=4)),
            "segment": lambda: map_segment(data),
            "unfinished": lambda: create_segment(data, [b"x"], key=key_of(1), generation=1, tier=0),
            "lock": ManagerLock(names).acquire,
        }
        with pytest.raises((SegmentError, OSError)):
            uses[what]()
    assert target.read_bytes() == b"precious"
    assert mode_of(target) == 0o600


@pytest.mark.parametrize("kind", ["fifo", "directory", "socket"])
def test_what_is_no_file_is_refused_at_once(kind: str) -> None:
    with own_namespace() as names:
        path = object_path(names.control_name)
        if kind == "fifo":
            os.mkfifo(path, 0o600)
        elif kind == "directory":
            path.mkdir(0o600)
        else:
            with socket.socket(socket.AF_UNIX) as endpoint:
                endpoint.bind(str(path))
            path.chmod(0o600)
        try:
            with pytest.raises((SegmentError, OSError)):
                open_control_reader(names)
            with pytest.raises((SegmentError, OSError)):
                recover(names, -1)
            assert path.exists()
        finally:
            path.rmdir() if kind == "directory" else path.unlink()


@pytest.mark.parametrize("name", ["control", "recency", "segment"])
def test_another_users_objects_are_never_mapped(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with own_namespace() as names:
        cache = Cache.create(names)
        entry = cache.add(key_of(1), b"payload")
        user = os.geteuid()
        reader = SharedCache.open(names)
        monkeypatch.setattr(os, "geteuid", lambda: user + 1)
        uses: dict[str, Callable[[], object]] = {
            "control": lambda: open_control_reader(names),
            "recency": lambda: open_recency(names, cache.control),
            "segment": lambda: map_segment(names.data_name(cache.control.instance, entry.serial)),
        }
        with pytest.raises(SegmentError):
            uses[name]()
        # A look-up takes it for a miss.
        assert reader.open_entry(key_of(1)) is None


def test_a_recovery_neither_uses_nor_removes_what_is_squatted() -> None:
    with own_namespace() as names:
        create_recency(names, create_control(names, home_count=4))
        path = object_path(names.control_name)
        path.chmod(0o606)
        before = path.read_bytes()
        with pytest.raises(SegmentError, match="mode"):
            recover(names, -1)
        assert path.read_bytes() == before
