"""The kernels made ready: compiled once per host, loaded from Numba's cache by every process after that.

Owns the once-per-host lock and the progress line. Must never be on the import path: compiling takes many seconds where
the cache is empty, and loading a fraction of a second where it is not.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np

from shmcache.automaton.grammar_automaton import GrammarAutomaton, frozen
from shmcache.rows.arrays import AutomatonArrays, TrieArrays
from shmcache.settings import runtime_folder

_logger = logging.getLogger("shmcache")
_ready = threading.Event()
_in_process = threading.Lock()
_LOCK_NAME = "shmcache-kernels.lock"
"""Says, too, of which version of the sources the kernels beside it are."""
_KERNEL_MODULES = ("counting_kernels", "entries", "kernels", "trie_kernels")


def _after_fork_in_child() -> None:
    """The thread that was making the kernels ready is not here."""
    global _in_process
    _in_process = threading.Lock()


os.register_at_fork(after_in_child=_after_fork_in_child)


def _log(message: str) -> None:
    _logger.info("%s", message)


def warm_up(report: Callable[[str], None] = _log) -> None:
    """Makes every kernel ready in this process; returns at once when it has been done.

    ``report`` gets a line before a compilation, which happens only where no process of this host has done it. Processes
    that come meanwhile wait and then load what was compiled.
    """
    if _ready.is_set():
        return
    with _in_process:
        if _ready.is_set():
            return
        _place_for_kernels()
        from shmcache.rows import entries

        directory = _cache_directory(entries.walk_trie)
        if directory is None:
            _run_all()
        else:
            directory.mkdir(parents=True, exist_ok=True)
            with open(directory / _LOCK_NAME, "a+") as lock:
                fcntl.lockf(lock, fcntl.LOCK_EX)
                version = _version()
                lock.seek(0)
                # What this process has loaded already is not written again.
                is_of_this_version = lock.read() == version or _is_loaded(entries)
                if not is_of_this_version:
                    _remove_compiled(directory)
                if not _is_cached(directory):
                    report("compiling the kernels, once on this host (about 20 s)")
                _run_all()
                if not is_of_this_version:
                    lock.truncate(0)
                    lock.write(version)
        _ready.set()


def _place_for_kernels() -> None:
    """Names a place for compiled kernels where Numba would find none, and then refuse to import them.

    Numba keeps them beside the source, else in the user's cache directory. It loads what it finds there as code, so a
    directory that others can write is never used.
    """
    if "NUMBA_CACHE_DIR" in os.environ or _has_place():
        return
    os.environ["NUMBA_CACHE_DIR"] = str(runtime_folder("kernels"))


def _has_place() -> bool:
    home = Path(os.environ.get("HOME", "/nonexistent"))
    user_cache = Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache")
    return any(os.access(place, os.W_OK) for place in (Path(__file__).resolve().parent, user_cache, home))


def _cache_directory(kernel: object) -> Path | None:
    """Where Numba keeps this kernel; None where it is switched off and kernels run as plain Python."""
    cache = getattr(kernel, "_cache", None)
    path = getattr(cache, "cache_path", None)
    return Path(path) if isinstance(path, (str, os.PathLike)) else None


def _version() -> str:
    """A digest of everything that compiled kernels are made of.

    Numba looks at the file of the function that it loads alone; what that calls may have changed in another.
    """
    digest = hashlib.blake2b(digest_size=16)
    folder = Path(__file__).resolve().parent
    for path in (*(folder / f"{module}.py" for module in (*_KERNEL_MODULES, "arrays")), folder.parent / "limits.py"):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _is_loaded(entries: ModuleType) -> bool:
    """Whether a kernel was called before it was made ready, as tests do."""
    return any(getattr(entry, "signatures", ()) for entry in vars(entries).values())


def _remove_compiled(directory: Path) -> None:
    """Removes kernels of another version of the sources; processes that have loaded them keep them."""
    for module in _KERNEL_MODULES:
        for path in directory.glob(f"{module}.*.nb[ci]"):
            path.unlink(missing_ok=True)


def _is_cached(directory: Path) -> bool:
    return all(any(directory.glob(f"{name}-*.nbi")) for name in ("entries.advance", "entries.walk_difference"))


def _run_all() -> None:
    """Runs every kernel on an automaton of one rule ``a`` and a trie of one token ``a``."""
    from shmcache.rows import entries
    from shmcache.rows.stacks import StackTable, front_handles, new_walk_room

    automaton = GrammarAutomaton(
        edge_offset=frozen([0, 1, 1], np.int32),
        edge_low=frozen([97], np.uint8),
        edge_high=frozen([97], np.uint8),
        edge_target=frozen([1], np.int32),
        call_offset=frozen([0, 0, 0], np.int32),
        call_rule=frozen([], np.int32),
        call_return=frozen([], np.int32),
        final=frozen([0, 1], np.uint8),
        rule_of_state=frozen([0, 0], np.int32),
        rule_start=frozen([0], np.int32),
        whole_offset=frozen([], np.int32),
        whole_set=frozen([], np.int32),
        whole_target=frozen([], np.int32),
        token_set_excluded=frozen([], np.uint8),
        token_set_offset=frozen([], np.int32),
        token_set_ids=frozen([], np.int32),
        root_nullable=False,
    )
    arrays = AutomatonArrays.of(automaton)
    trie = TrieArrays(
        node_byte=frozen([0, 97], np.uint8),
        node_depth=frozen([0, 1], np.int32),
        node_end=frozen([2, 2], np.int32),
        node_height=frozen([1, 0], np.int32),
        node_first_token=frozen([0, 0, 1], np.int32),
        token_order=frozen([0], np.int32),
        first_node=frozen([1 if byte == 97 else -1 for byte in range(256)], np.int32),
    )
    stacks = StackTable()
    fronts = front_handles(1)
    token = np.zeros(1, dtype=np.int32)
    room = new_walk_room(tokens=1, words=1, depth=2)
    automaton_at, trie_at, room_at = entries.handle(arrays), entries.handle(trie), entries.handle(room)
    entries.walk_trie(automaton_at, stacks.handle, trie_at, token, token, room_at, True)
    entries.gather_words(trie_at, 1, room_at)
    base, alike = np.zeros(2, dtype=np.int32), np.zeros(2, dtype=np.int32)
    entries.pair_states(automaton_at, 0, 0, 0, 1, base, alike)
    entries.walk_difference(automaton_at, trie_at, 0, 0, base, alike, room_at)
    entries.count_states(automaton_at, 0, 0, base, alike, base.copy(), alike.copy())
    entries.walk_characters(automaton_at, trie_at, 0, room_at)
    offsets, blob = frozen([0, 1], np.int64), frozen([97], np.uint8)
    verdicts = np.zeros(1, dtype=np.uint8)
    known = np.zeros(0, dtype=np.uint8)
    tokens = frozen([0], np.int32)
    entries.resolve_tokens(automaton_at, stacks.handle, offsets, blob, tokens, 0, 0, *fronts, known, verdicts)
    entries.change_words(frozen([0], np.int32), tokens, tokens, token, token, room_at)
    entries.open_level(automaton_at, stacks.handle, token, token, fronts[0])
    entries.advance(automaton_at, stacks.handle, token, token, blob, 0, 1, fronts[0])
