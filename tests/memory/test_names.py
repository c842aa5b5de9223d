"""Names, and the runtime directory that must be ours alone."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from shmcache.errors import SegmentError
from shmcache.memory.names import DataName, Namespace, object_path, parse_data_name


def test_names_follow_from_user_and_name() -> None:
    first, again = Namespace.of("a", 1), Namespace.of("a", 1)
    assert first == again
    assert re.fullmatch(r"/shmc-[0-9a-f]{10}", first.prefix)
    assert len({first.prefix, Namespace.of("a", 2).prefix, Namespace.of("b", 1).prefix}) == 3
    assert first.control_name == first.prefix + ".ctl"
    assert first.recency_name == first.prefix + ".rdr"


def test_data_names_round_trip() -> None:
    namespace = Namespace.of("a")
    name = namespace.data_name(0xABC, 0x1F)
    assert name.startswith(namespace.prefix + "-")
    assert parse_data_name(name) == DataName(namespace.prefix, 0xABC, 0x1F, False)
    assert parse_data_name(name + ".new") == DataName(namespace.prefix, 0xABC, 0x1F, True)


@pytest.mark.parametrize("name", ["/shmc-0123456789.ctl", "/other", "/shmc-0123456789-x-1", "", "/shmc-0123456789--"])
def test_other_names_are_no_data_names(name: str) -> None:
    assert parse_data_name(name) is None


@pytest.mark.parametrize("name", ["a", "/", "", "/../etc/passwd", "/a/b", "/a\0"])
def test_object_names_cannot_leave_the_directory(name: str) -> None:
    with pytest.raises(SegmentError):
        object_path(name)


@pytest.mark.parametrize("name", ["", "x" * 201])
def test_namespace_names_are_bounded(name: str) -> None:
    with pytest.raises(SegmentError):
        Namespace.of(name)


def test_a_long_runtime_directory_is_refused() -> None:
    with pytest.raises(SegmentError, match="longer"):
        Namespace.of("a", directory=Path("/tmp/" + "x" * 100))


def test_runtime_directory_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SHMCACHE_RUNTIME_DIR", raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/7")
    assert Namespace.of("a").directory == Path("/run/user/7/shmcache")
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert Namespace.of("a").directory == Path(f"/tmp/shmcache-{os.geteuid()}")
    monkeypatch.setenv("SHMCACHE_RUNTIME_DIR", "/elsewhere")
    assert Namespace.of("a").directory == Path("/elsewhere")


def test_directory_is_made_private(tmp_path: Path) -> None:
    namespace = Namespace.of("a", directory=tmp_path / "run")
    namespace.make_directory()
    assert namespace.directory.stat().st_mode & 0o777 == 0o700
    namespace.make_directory()


def test_an_open_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir(mode=0o755)
    with pytest.raises(SegmentError, match="0700"):
        Namespace.of("a", directory=tmp_path / "run").make_directory()


def test_a_foreign_directory_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    with pytest.raises(SegmentError, match="uid"):
        Namespace.of("a", os.geteuid() + 1, directory=tmp_path).check_directory()


def test_a_linked_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "run").symlink_to(tmp_path / "real")
    with pytest.raises(SegmentError, match="not a directory"):
        Namespace.of("a", directory=tmp_path / "run").make_directory()
