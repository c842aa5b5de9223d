"""Kernels made ready: a line before they are compiled, none when they are only loaded, nothing the second time."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from shmcache.errors import SegmentError
from shmcache.grammar.ir import Choice, Grammar, Literal, Reference, Regular, Sequence
from shmcache.limits import Budget
from shmcache.matcher.matcher import GrammarMatcher
from shmcache.private import compile_json_schema
from shmcache.regular.dfa import Dfa
from shmcache.regular.operations import repeat
from shmcache.rows import warm_up as warm_up_module
from shmcache.rows.warm_up import warm_up
from shmcache.vocabulary.vocabulary import Vocabulary
from tests.matcher.support import allowed, compiled


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
    for kernel in ("advance", "open_level", "walk_trie", "walk_difference"):
        (cold / f"entries.{kernel}-1.py311.nbi").touch()
    (cold / warm_up_module._LOCK_NAME).write_text(warm_up_module._version())
    lines: list[str] = []
    warm_up(lines.append)
    assert lines == []
    assert (cold / "entries.advance-1.py311.nbi").exists()


@pytest.mark.reference
def test_kernels_of_other_sources_are_not_loaded(cold: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numba would: it looks at the file of the entry alone, and a kernel behind it may have changed."""
    monkeypatch.setattr(warm_up_module, "_is_loaded", lambda _: False)
    cold.mkdir()
    stale = [
        cold / f"{name}-1.py311.{kind}" for name in ("entries.advance", "kernels.step") for kind in ("nbi", "1.nbc")
    ]
    other = cold / "others.thing-1.py311.nbi"
    for path in (*stale, other):
        path.touch()
    (cold / warm_up_module._LOCK_NAME).write_text("another version")
    lines: list[str] = []
    warm_up(lines.append)
    assert len(lines) == 1
    assert not any(path.exists() for path in stale)
    assert other.exists()
    assert (cold / warm_up_module._LOCK_NAME).read_text() == warm_up_module._version()


@pytest.mark.reference
@pytest.mark.parametrize("kernels", [("advance", "open_level"), ("walk_trie", "walk_difference")])
def test_some_kernels_alone_are_not_all(cold: Path, kernels: tuple[str, ...]) -> None:
    cold.mkdir()
    for kernel in kernels:
        (cold / f"entries.{kernel}-1.py311.nbi").touch()
    lines: list[str] = []
    warm_up(lines.append)
    assert len(lines) == 1


def test_every_kernel_is_made_ready() -> None:
    """What a request calls first is compiled for the very types it is called with."""
    from shmcache.rows import entries

    warm_up()
    names = [
        "advance",
        "change_words",
        "gather_words",
        "open_level",
        "pair_states",
        "count_states",
        "resolve_tokens",
        "walk_characters",
        "walk_difference",
        "walk_trie",
    ]
    used = [getattr(entries, name) for name in names]
    before = [len(getattr(kernel, "signatures", ())) for kernel in used]
    vocabulary = Vocabulary([b"a", b"aa", b"aaa", b"b", b"ab", b"aab"] * 3)
    letter = Dfa((((97, 97, 1),), ()), (False, True))
    tested = Grammar(
        {
            "root": Choice((Sequence((Reference("few"), Reference("any"), Literal(b"b"))), Literal(b"bb"))),
            "few": Regular(repeat(letter, 1, 40, Budget())),
            "any": Regular(repeat(letter, 0, None, Budget())),
        },
        "root",
        frozenset({"few", "any"}),
    )
    matcher = GrammarMatcher(compiled(tested, vocabulary))
    for token in (0, 1, 2):
        assert allowed(matcher, vocabulary.width)
        assert matcher.accept_token(token)
    assert matcher._arena._masks._lazy._differences, "some masks are worked out beside others"
    assert [len(getattr(kernel, "signatures", ())) for kernel in used] == before


@pytest.mark.reference
def test_without_compilation_there_is_nothing_to_announce(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm_up_module, "_ready", threading.Event())
    monkeypatch.setattr(warm_up_module, "_cache_directory", lambda _: None)
    lines: list[str] = []
    warm_up(lines.append)
    assert lines == []


def test_the_real_cache_is_beside_the_kernels() -> None:
    from shmcache.rows import entries

    directory = warm_up_module._cache_directory(entries.walk_trie)
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


def test_a_place_is_named_only_where_numba_would_find_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SHMCACHE_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setattr(warm_up_module, "_has_place", lambda: True)
    warm_up_module._place_for_kernels()
    assert "NUMBA_CACHE_DIR" not in os.environ
    monkeypatch.setattr(warm_up_module, "_has_place", lambda: False)
    try:
        warm_up_module._place_for_kernels()
        assert os.environ["NUMBA_CACHE_DIR"] == str(tmp_path / "run" / "kernels")
        assert (tmp_path / "run").stat().st_mode & 0o777 == 0o700
        assert (tmp_path / "run" / "kernels").stat().st_mode & 0o077 == 0
    finally:
        os.environ.pop("NUMBA_CACHE_DIR", None)


def test_a_place_that_others_can_write_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Numba runs what it finds in its cache."""
    monkeypatch.setenv("SHMCACHE_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setattr(warm_up_module, "_has_place", lambda: False)
    (tmp_path / "run").mkdir()
    (tmp_path / "run").chmod(0o777)
    with pytest.raises(SegmentError, match="no one else can write"):
        warm_up_module._place_for_kernels()
    assert "NUMBA_CACHE_DIR" not in os.environ


def test_processes_that_start_at_once_compile_the_kernels_once(tmp_path: Path) -> None:
    program = "from shmcache.rows.warm_up import warm_up; warm_up(print)"
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    processes = [
        subprocess.Popen([sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    try:
        said = [process.communicate(timeout=100)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0, 0, 0]
    assert sorted(map(bool, said)) == [False, False, True], "one process compiled, and said so"


def test_changed_words_of_any_kind_are_made_ready() -> None:
    """A base in place and one that is expanded, with the words of a walk and without."""
    from shmcache.rows import entries

    warm_up()
    before = len(getattr(entries.change_words, "signatures", ()))
    vocabulary = Vocabulary(
        [bytes([byte]) for byte in range(256)] + [b"ab", b"a}", b"b]", b"</s>"], stop_token_ids=[259]
    )
    schema = (
        '{"type": "object", "properties": {"colour": {"type": "string", "maxLength": 20}},'
        ' "additionalProperties": {"anyOf": [{"type": "string", "maxLength": 40}, {"type": "number"}]}}'
    )
    matcher = GrammarMatcher(compile_json_schema(schema, vocabulary, strict_mode=False))
    for byte in b'{"colour": "b", "colours": 20, "cola": "x", "zzz": -1.5}':
        assert allowed(matcher, vocabulary.width)
        assert matcher.accept_token(byte)
    assert len(getattr(entries.change_words, "signatures", ())) == before
