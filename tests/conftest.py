"""What all tests share: a private corner of shared memory, vocabularies, and the proof that nothing is left behind.

The whole run, with every process it starts, uses its own directory on ``/dev/shm`` and its own runtime directory, so
that it neither meets a user's cache nor another run, and whatever is left there at the end was left by this run.
"""

from __future__ import annotations

import importlib.util
import os
import select
import shutil
import signal
import socket
import struct
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from shmcache.vocabulary.vocabulary import Vocabulary

REPOSITORY = Path(__file__).resolve().parent.parent
SHM = Path("/dev/shm")
MANAGER_EXIT_SECONDS_MAX = 5.0

_run_directories: list[Path] = []


def pytest_configure(config: pytest.Config) -> None:
    """Refuses to test a copy, and moves the run to directories of its own before anything of ours is imported."""
    for package, source_root in (("shmcache", "."), ("shmcache_workers", "workers"), ("shmcache_tools", "tools")):
        spec = importlib.util.find_spec(package)
        expected = REPOSITORY / source_root / package / "__init__.py"
        if spec is None or spec.origin is None or not expected.samefile(spec.origin):
            origin = spec.origin if spec else "nowhere"
            raise pytest.UsageError(
                f"{package} is imported from {origin}, not from this checkout: pip install -e '.[test]'"
            )
    shm_directory = Path(tempfile.mkdtemp(prefix="shmcache-tests-", dir=SHM))
    runtime_directory = Path(tempfile.mkdtemp(prefix="shmcache-tests-"))
    os.environ["SHMCACHE_SHM_DIRECTORY"] = str(shm_directory)
    os.environ["SHMCACHE_RUNTIME_DIR"] = str(runtime_directory)
    _run_directories.extend((shm_directory, runtime_directory))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fails the run when it left an object in shared memory, and names it."""
    left = sorted(path.name for path in _run_directories[0].iterdir())
    if left:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
        reporter = session.config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            reporter.write_line(f"\nleft in shared memory by this run, removed now: {', '.join(left)}", red=True)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Removes the run's directories."""
    while _run_directories:
        shutil.rmtree(_run_directories.pop(), ignore_errors=True)


@pytest.fixture
def namespace() -> Iterator[str]:
    """The name of a namespace no other test uses."""
    with own_namespace() as name:
        yield name


@contextmanager
def own_namespace() -> Iterator[str]:
    """The name of a new namespace. Afterwards its manager is stopped and its objects are unlinked.

    Objects outlive their manager by design, so leaving some in a namespace is no failure of the test.
    """
    from shmcache.memory.election import holder_pid
    from shmcache.memory.names import SHM_DIRECTORY, Namespace

    name = f"test-{uuid.uuid4().hex}"
    names = Namespace.of(name)
    try:
        yield name
    finally:
        stop_manager(names.socket_path)
        # One that has not begun to listen, or no longer does.
        if pid := holder_pid(names):
            stop_process(pid)
        prefix = names.prefix.removeprefix("/")
        for directory in (SHM_DIRECTORY, names.directory):
            for path in directory.glob(f"{prefix}*"):
                path.unlink(missing_ok=True)


def stop_manager(socket_path: Path) -> None:
    """Ends the process listening on ``socket_path``, if there is one other than ours, and waits until it is gone."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(MANAGER_EXIT_SECONDS_MAX)
        try:
            connection.connect(str(socket_path))
        except OSError:
            return
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid = struct.unpack("3i", credentials)[0]
    if pid != os.getpid():
        stop_process(pid)


def stop_process(pid: int) -> None:
    """Asks the process to end, kills it when it does not within the time, and waits until it is gone."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        for signal_number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(descriptor, signal_number)
            poller = select.poll()
            poller.register(descriptor, select.POLLIN)
            if poller.poll(MANAGER_EXIT_SECONDS_MAX * 1000):
                return
    finally:
        os.close(descriptor)


@pytest.fixture(scope="session")
def tekken() -> Vocabulary:
    """The 131,072-token Tekken vocabulary, with its trie built."""
    from shmcache.vocabulary.vocabulary import Vocabulary

    vocabulary = Vocabulary.from_mistral()
    assert vocabulary.trie.token_count > 130_000
    return vocabulary


@pytest.fixture(scope="session")
def small_vocabulary() -> Vocabulary:
    """About 300 tokens: id ``b`` is the byte ``b``, then pieces of JSON and text, then the stop token ``</s>``."""
    from shmcache.vocabulary.vocabulary import Vocabulary

    json_pieces = ['{"', '"}', '":', '": ', '", "', ", ", "[[", "]]", "[]", "{}", '",', "\\u", "\\n", '\\"', "\n  "]
    words = ["true", "false", "null", "tr", "ue", "name", "age", "type", "value", " the", "ab", "abc", "aa", "aaa"]
    numbers = ["10", "12", "100", "0.", ".5", "e+", "-1", "00", "1e"]
    multi_byte = ["é", "ü", "ß", "€", "日本", "語", "🎉", "👍🏽"]
    cut_characters = [b"\xe2\x82", b"\xac", b"\xf0\x9f", b"a\xc3", b"\xa9b"]
    tokens = [bytes([byte]) for byte in range(256)]
    tokens += [text.encode() for text in (*json_pieces, *words, *numbers, *multi_byte)]
    # Duplicates, so that no test comes to rely on one id for each string.
    tokens += [*cut_characters, b"true", b"a", b"</s>"]
    return Vocabulary(tokens, stop_token_ids=[len(tokens) - 1])
