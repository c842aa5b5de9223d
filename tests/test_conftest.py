"""The shared fixtures keep their promises: a leak fails the run, and a namespace is empty afterwards."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from shmcache.vocabulary.vocabulary import Vocabulary
from tests.conftest import REPOSITORY, SHM, stop_manager

LISTENER = """
import signal, socket, sys
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen()
print("ready", flush=True)
signal.pause()
"""


def run_pytest(module: Path, text: str) -> subprocess.CompletedProcess[str]:
    """Runs ``text`` as a test module of its own, under this project's conftest."""
    module.write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.conftest", "-p", "no:cacheprovider", str(module)]
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=60, check=False)


def test_a_leak_fails_the_run_and_is_removed(tmp_path: Path) -> None:
    text = """
        import os, pathlib
        def test_leaks():
            directory = pathlib.Path(os.environ["SHMCACHE_SHM_DIRECTORY"])
            (directory / "shmc-leaked").write_text("x")
            pathlib.Path({note!r}).write_text(str(directory))
    """
    note = tmp_path / "note"
    module = tmp_path / "test_leaking.py"
    run = run_pytest(module, "\n".join(line[8:] for line in text.format(note=str(note)).splitlines()))
    assert run.returncode == 1, run.stdout + run.stderr
    assert "1 passed" in run.stdout
    assert "left in shared memory by this run, removed now: shmc-leaked" in run.stdout
    directory = Path(note.read_text())
    assert directory.parent == SHM
    assert not directory.exists()


def test_a_clean_run_passes(tmp_path: Path) -> None:
    text = """
        import os, pathlib
        def test_cleans(namespace):
            from shmcache.memory.names import Namespace
            names = Namespace.of(namespace)
            (pathlib.Path(os.environ["SHMCACHE_SHM_DIRECTORY"]) / names.prefix[1:]).write_text("x")
            names.socket_path.write_text("not a socket")
    """
    run = run_pytest(tmp_path / "test_clean.py", "\n".join(line[8:] for line in text.splitlines()))
    assert run.returncode == 0, run.stdout + run.stderr
    assert "1 passed" in run.stdout
    assert "left in" not in run.stdout


def test_stop_manager_ends_the_listener(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    stop_manager(path)
    with subprocess.Popen([sys.executable, "-c", LISTENER, str(path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        stop_manager(path)
        assert process.wait(5) == -15


def test_this_run_is_apart(namespace: str) -> None:
    from shmcache.memory import names

    assert str(names.SHM_DIRECTORY) == os.environ["SHMCACHE_SHM_DIRECTORY"]
    assert names.SHM_DIRECTORY.parent == SHM
    assert str(names.Namespace.of(namespace).directory) == os.environ["SHMCACHE_RUNTIME_DIR"]
    names.Namespace.of(namespace).check_directory()


def test_small_vocabulary(small_vocabulary: Vocabulary) -> None:
    assert 290 <= small_vocabulary.size <= 330
    assert [small_vocabulary.token_bytes(byte) for byte in range(256)] == [bytes([byte]) for byte in range(256)]
    assert small_vocabulary.stop_token_ids == (small_vocabulary.size - 1,)
    assert small_vocabulary.token_bytes(small_vocabulary.size - 1) == b"</s>"


@pytest.mark.tekken
def test_tekken(tekken: Vocabulary) -> None:
    assert (tekken.size, tekken.width) == (131_072, 131_072)
