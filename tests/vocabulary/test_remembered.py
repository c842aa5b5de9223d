"""Vocabularies that are remembered are those that would be read, and nothing that goes wrong with them is an error."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from random import Random

import numpy as np
import pytest

from shmcache.errors import SourceError
from shmcache.vocabulary import remembered as remembered_module
from shmcache.vocabulary.remembered import FILES_MAX, remembered
from shmcache.vocabulary.trie import Trie
from shmcache.vocabulary.vocabulary import Vocabulary

pytestmark = pytest.mark.reference

Make = Callable[[], Vocabulary]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where they lie, in a runtime directory of the test's own."""
    monkeypatch.setenv("SHMCACHE_RUNTIME_DIR", str(tmp_path / "runtime"))
    return tmp_path / "runtime" / "vocabularies"


def refuse() -> Vocabulary:
    raise AssertionError("read again")


def plain() -> Vocabulary:
    return Vocabulary([b"a", b"ab", None, b"</s>", b""], [3], [3], width=7)


def random_one(seed: int) -> Vocabulary:
    rng = Random(seed)
    tokens = [rng.randbytes(rng.randrange(1, 6)) if rng.random() < 0.9 else None for _ in range(rng.randrange(1, 300))]
    special = rng.sample(range(len(tokens)), min(3, len(tokens)))
    return Vocabulary(tokens, special, special[:1], width=len(tokens) + rng.randrange(40))


def are_same(one: Vocabulary, other: Vocabulary) -> bool:
    tries = [[getattr(trie, name) for name in Trie.__slots__] for trie in (one.trie, other.trie)]
    return one.to_bytes() == other.to_bytes() and all(map(np.array_equal, *tries))


@pytest.mark.parametrize("seed", range(12))
def test_what_is_remembered_is_what_was_made(folder: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    data = b"file %d" % seed
    made = remembered("test", data, (), lambda: random_one(seed))
    assert are_same(made, random_one(seed))
    found = remembered("test", data, (), refuse)
    with monkeypatch.context() as patch:
        patch.setattr(Trie, "build", refuse)
        assert found.trie.token_count == made.trie.token_count
    assert are_same(found, random_one(seed))
    assert found == made
    assert [found.token_bytes(number) for number in range(found.size)] == [
        made.token_bytes(number) for number in range(made.size)
    ]


def test_other_bytes_readers_and_options_are_others(folder: Path) -> None:
    remembered("test", b"file", (None, 1), plain)
    for reader, data, options in (("test", b"File", (None, 1)), ("tesT", b"file", (None, 1)), ("test", b"file", (1,))):
        with pytest.raises(AssertionError):
            remembered(reader, data, options, refuse)
    assert remembered("test", b"file", (None, 1), refuse) == plain()


def test_another_version_of_the_sources_reads_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    remembered("test", b"file", (), plain)
    monkeypatch.setattr(remembered_module, "_sources_digest", lambda: b"another version")
    with pytest.raises(AssertionError):
        remembered("test", b"file", (), refuse)


def test_errors_are_those_of_the_reader_and_are_not_remembered(folder: Path) -> None:
    def fail() -> Vocabulary:
        raise SourceError("malformed")

    for _ in range(2):
        with pytest.raises(SourceError, match="malformed"):
            remembered("test", b"file", (), fail)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("seed", range(6))
def test_damage_is_noticed_and_mended(folder: Path, seed: int) -> None:
    """Of the vocabulary at once; of the trie when that is asked for, which is then built."""
    rng = Random(seed)
    remembered("test", b"file", (), plain)
    (path,) = folder.iterdir()
    whole = path.read_bytes()
    for _ in range(40):
        damaged = bytearray(whole)
        damaged[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)
        path.write_bytes(damaged if rng.random() < 0.7 else damaged[: rng.randrange(len(damaged))])
        assert are_same(remembered("test", b"file", (), plain), plain())
        path.write_bytes(whole)
    path.write_bytes(b"garbage")
    assert remembered("test", b"file", (), plain) == plain()
    assert remembered("test", b"file", (), refuse) == plain()


@pytest.mark.parametrize("wrong", ["folder open", "parent open", "link", "file open", "file", "no place"])
def test_what_others_could_have_written_is_not_used(folder: Path, wrong: str, tmp_path: Path) -> None:
    remembered("test", b"file", (), plain)
    (path,) = folder.iterdir()
    if wrong == "folder open":
        folder.chmod(0o777)
    elif wrong == "parent open":
        folder.parent.chmod(0o770)
    elif wrong == "link":
        path.rename(tmp_path / "elsewhere")
        path.symlink_to(tmp_path / "elsewhere")
    elif wrong == "file open":
        path.chmod(0o622)
    else:
        path.unlink()
        folder.rmdir()
        folder.write_bytes(b"") if wrong == "file" else folder.symlink_to(tmp_path)
    with pytest.raises(AssertionError):
        remembered("test", b"file", (), refuse)
    assert are_same(remembered("test", b"file", (), plain), plain())


def test_few_are_kept_the_unused_goes_first(folder: Path) -> None:
    for number in range(FILES_MAX):
        remembered("test", b"file %d" % number, (), plain)
    for age, file in enumerate(sorted(folder.iterdir())):
        os.utime(file, ns=(10 + age, 10 + age))
    (folder / "new-left-by-somebody-killed").touch()
    os.utime(folder / "new-left-by-somebody-killed", ns=(5, 5))
    remembered("test", b"file 0", (), refuse)
    remembered("test", b"another", (), plain)
    assert len(list(folder.iterdir())) == FILES_MAX
    assert not (folder / "new-left-by-somebody-killed").exists()
    remembered("test", b"file 0", (), refuse)
    remembered("test", b"another", (), refuse)


def test_a_full_disk_is_no_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    assert remembered("test", b"file", (), plain) == plain()
    assert list(folder.iterdir()) == []


def test_it_is_let_go_of_without_the_collector(folder: Path) -> None:
    remembered("test", b"file", (), plain)
    gc.disable()
    try:
        found = remembered("test", b"file", (), refuse)
        assert found.trie
        gone = weakref.ref(found)
        del found
        assert gone() is None
    finally:
        gc.enable()


def test_the_runtime_directory_is_made_for_us_alone(folder: Path) -> None:
    remembered("test", b"file", (), plain)
    assert [directory.stat().st_mode & 0o777 for directory in (folder.parent, folder)] == [0o700, 0o700]
    assert [file.stat().st_mode & 0o777 for file in folder.iterdir()] == [0o600]


KILLED = """
import os, signal, sys
from shmcache.vocabulary.remembered import remembered
from shmcache.vocabulary.vocabulary import Vocabulary
name, at = sys.argv[1], int(sys.argv[2])
real, calls = getattr(os, name), 0
def killed(*arguments, **named):
    global calls
    calls += 1
    if calls > at:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*arguments, **named)
setattr(os, name, killed)
remembered("test", b"file", (), lambda: Vocabulary([b"a", b"ab", None, b"</s>", b""], [3], [3], width=7))
"""


@pytest.mark.parametrize("step", [("replace", 0), ("fdopen", 0), ("open", 1), ("unlink", 0)])
def test_a_kill_at_any_step_leaves_nothing_half_done(folder: Path, step: tuple[str, int]) -> None:
    subprocess.run([sys.executable, "-c", KILLED, step[0], str(step[1])], check=False, timeout=30)
    assert are_same(remembered("test", b"file", (), plain), plain())
    assert are_same(remembered("test", b"file", (), refuse), plain())
