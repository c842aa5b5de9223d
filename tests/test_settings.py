"""Settings: which source wins, what malformed values do, and the limit that follows from the host's memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from shmcache import settings


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("1048576", 1 << 20),
        ("512M", 512 << 20),
        ("2GiB", 2 << 30),
        ("1.5k", 1536),
        ("-1", -1),
        (" 3 TB ", 3 << 40),
    ],
)
def test_bytes_are_read(text: str, number: int) -> None:
    assert settings.parse_bytes(text) == number


@pytest.mark.parametrize("text", ["", "x", "-2", "-1k", "nan", "inf", "1e30", "1 2"])
def test_other_bytes_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"convert|bytes"):
        settings.parse_bytes(text)


def test_a_flag_beats_a_variable_beats_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SHMCACHE_WORKERS", raising=False)
    default = settings.WORKERS.value()
    assert default >= 1
    monkeypatch.setenv("SHMCACHE_WORKERS", "7")
    assert settings.WORKERS.value() == 7
    assert settings.WORKERS.value(3) == 3
    monkeypatch.setenv("SHMCACHE_WORKERS", "")
    assert settings.WORKERS.value() == default


@pytest.mark.parametrize(
    ("setting", "text"),
    [
        (settings.WORKERS, "0"),
        (settings.WORKERS, "many"),
        (settings.COMPILE_SECONDS, "-1"),
        (settings.COMPILE_SECONDS, "nan"),
        (settings.LIMIT_BYTES, "all"),
    ],
)
def test_a_malformed_variable_is_named(
    setting: settings.Setting[float], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(setting.variable, text)
    with pytest.raises(ValueError, match=setting.variable):
        setting.value()


def test_every_setting_has_a_variable_of_its_own_and_a_meaning() -> None:
    variables = [setting.variable for setting in settings.ALL]
    assert len(set(variables)) == len(variables)
    assert all(variable.startswith("SHMCACHE_") for variable in variables)
    assert all(setting.meaning for setting in settings.ALL)


def _group(path: Path, limit: str, usage: int, inactive: int = 0) -> None:
    path.mkdir(parents=True, exist_ok=True)
    (path / "memory.max").write_text(limit)
    (path / "memory.current").write_text(str(usage))
    (path / "memory.stat").write_text(f"anon 1\ninactive_file {inactive}\n")


def test_the_tightest_cgroup_decides(tmp_path: Path) -> None:
    own = tmp_path / "cgroup"
    own.write_text("0::/a/b\n")
    _group(tmp_path / "root" / "a", "1000", 400)
    _group(tmp_path / "root" / "a" / "b", "max", 300)
    assert settings.cgroup_headroom_bytes(tmp_path / "root", own) == 600
    _group(tmp_path / "root" / "a" / "b", "350", 300, inactive=30)
    assert settings.cgroup_headroom_bytes(tmp_path / "root", own) == 80
    _group(tmp_path / "root" / "a" / "b", "100", 300)
    assert settings.cgroup_headroom_bytes(tmp_path / "root", own) == 0


def test_a_container_sees_its_cgroup_as_the_root(tmp_path: Path) -> None:
    own = tmp_path / "cgroup"
    own.write_text("0::/not/visible/here\n")
    _group(tmp_path / "root", "1000", 100)
    assert settings.cgroup_headroom_bytes(tmp_path / "root", own) == 900


def test_the_older_cgroup_layout(tmp_path: Path) -> None:
    own = tmp_path / "cgroup"
    own.write_text("5:cpu:/x\n4:memory:/x\n")
    group = tmp_path / "root" / "memory" / "x"
    group.mkdir(parents=True)
    (group / "memory.limit_in_bytes").write_text("5000")
    (group / "memory.usage_in_bytes").write_text("2000")
    (group / "memory.stat").write_text("total_inactive_file 500\n")
    assert settings.cgroup_headroom_bytes(tmp_path / "root", own) == 3500


def test_no_cgroup_is_no_limit(tmp_path: Path) -> None:
    assert settings.cgroup_headroom_bytes(tmp_path, tmp_path / "missing") >= 1 << 60


def test_the_default_limit_is_a_quarter_of_what_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SHMCACHE_LIMIT_BYTES", raising=False)
    monkeypatch.setattr(settings, "cgroup_headroom_bytes", lambda: 4000)
    assert settings.LIMIT_BYTES.value() == 1000
    monkeypatch.setenv("SHMCACHE_LIMIT_BYTES", "-1")
    assert settings.LIMIT_BYTES.value() == settings.UNLIMITED_BYTES
