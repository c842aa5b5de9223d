"""Kernels made ready: a line before they are compiled, none when they are only loaded, nothing the second time."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from shmcache.rows import warm_up as warm_up_module
from shmcache.rows.warm_up import warm_up


@pytest.fixture
def cold(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """As in a process that has not warmed up, with this directory for the compiled kernels."""
    monkeypatch.setattr(warm_up_module, "_ready", threading.Event())
    monkeypatch.setattr(warm_up_module, "_cache_directory", lambda _: tmp_path / "cache")
    return tmp_path / "cache"


@pytest.mark.reference
def test_a_compilation_is_announced_once(cold: Path) -> None:
    lines: list[str] = []
    warm_up(lines.append)
    assert len(lines) == 1
    assert "compiling" in lines[0]
    warm_up(lines.append)
    assert len(lines) == 1
    assert (cold / warm_up_module._LOCK_NAME).exists()


@pytest.mark.reference
def test_what_is_cached_is_loaded_in_silence(cold: Path) -> None:
    cold.mkdir()
    for kernel in ("advance", "resolve_tokens", "walk_trie", "walk_difference", "open_start"):
        (cold / f"kernels.{kernel}-1.py311.nbi").touch()
    lines: list[str] = []
    warm_up(lines.append)
    assert lines == []


@pytest.mark.reference
def test_without_compilation_there_is_nothing_to_announce(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm_up_module, "_ready", threading.Event())
    monkeypatch.setattr(warm_up_module, "_cache_directory", lambda _: None)
    lines: list[str] = []
    warm_up(lines.append)
    assert lines == []


def test_the_real_cache_is_beside_the_kernels() -> None:
    from shmcache.rows import kernels

    directory = warm_up_module._cache_directory(kernels.walk_trie)
    if directory is not None:  # None where this runs without compilation
        assert directory.is_dir()
        warm_up()
        assert warm_up_module._is_cached(directory)


@pytest.mark.reference
def test_the_lock_is_held_while_kernels_are_made_ready(cold: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process that warms up meanwhile waits for it."""
    codes: list[int] = []
    lock = str(cold / warm_up_module._LOCK_NAME)
    program = f"import fcntl; fcntl.lockf(open({lock!r}, 'w'), fcntl.LOCK_EX | fcntl.LOCK_NB)"

    def run_all() -> None:
        run = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=5, check=False)
        codes.append(run.returncode)

    monkeypatch.setattr(warm_up_module, "_run_all", run_all)
    warm_up(lambda _: None)
    run_all()
    assert codes == [1, 0]
