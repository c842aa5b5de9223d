"""Acquiring loads and releasing stores: the same words as a memoryview, and on ARM64 the right instructions."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from shmcache.memory import words as words_module
from shmcache.memory.account import Entry
from shmcache.memory.control import ControlReader, ControlWriter, control_image
from shmcache.memory.index import IndexReader, IndexWriter
from shmcache.memory.words import LOCK_FREE, needs_ordered_words, words_of
from tests.memory.support import is_consistent, key_of, place_consistent

ordered_words = pytest.importorskip("shmcache.memory.ordered_words")


def assembly_for(function: Any, triple: str) -> str:
    """What LLVM makes of a compiled function for another machine: its IR under that machine's triple and layout.

    Of the module only the function itself is taken: beside it stand wrappers for this machine's Python.
    """
    import llvmlite.binding as llvm
    from numba import njit

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple(triple).create_target_machine(opt=2, codemodel="small")
    # Compiled here and now: of code from a cache there is no IR.
    fresh = njit(function.signatures[0])(function.py_func)
    (ir,) = fresh.inspect_llvm().values()
    found = re.search(r"(?ms)^define [^\n]*\{\n.*?^\}$", ir)
    assert found is not None
    body = re.sub(r"#\d+|, ![a-z.]+ !\d+", "", found[0])
    module = llvm.parse_assembly(f'target triple = "{triple}"\ntarget datalayout = "{machine.target_data}"\n{body}\n')
    module.verify()
    assembly: str = machine.emit_assembly(module)
    return assembly


def instructions(assembly: str) -> set[str]:
    return set(re.findall(r"(?m)^\s+([a-z][a-z0-9.]*)\s", assembly))


@pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT", "0") != "0", reason="reads compiled code")
class TestInstructions:
    """Cross-compiled for ARM64, whatever this machine is."""

    def test_loads_acquire(self) -> None:
        found = instructions(assembly_for(ordered_words.load, "aarch64-linux-gnu"))
        assert found & {"ldar", "ldapr"}

    def test_many_loads_acquire_each(self) -> None:
        assembly = assembly_for(ordered_words.load_many, "aarch64-linux-gnu")
        assert instructions(assembly) & {"ldar", "ldapr"}
        body = assembly.split("ldapr" if "ldapr" in assembly else "ldar")
        assert len(body) >= 2

    def test_stores_release(self) -> None:
        found = instructions(assembly_for(ordered_words.store, "aarch64-linux-gnu"))
        assert "stlr" in found

    def test_on_x86_they_are_plain_moves(self) -> None:
        assembly = assembly_for(ordered_words.store, "x86_64-linux-gnu")
        assert "mov" in assembly
        assert not instructions(assembly) & {"mfence", "lock", "xchgq"}

    def test_plain_code_would_be_told_apart(self) -> None:
        from numba import njit, types

        plain = njit(types.uint64(ordered_words._READABLE, types.intp))(lambda words, position: words[position])
        assert not instructions(assembly_for(plain, "aarch64-linux-gnu")) & {"ldar", "ldapr"}


def test_they_are_the_words_of_a_memoryview() -> None:
    buffer = bytearray(8 * 32)
    plain, ordered = words_of(buffer), ordered_words.OrderedWords(words_of(buffer))
    for position, value in ((0, 1), (5, (1 << 64) - 1), (31, 1 << 63), (-1, 7)):
        ordered[position] = value
        assert plain[position] == ordered[position] == value
    assert len(ordered) == len(plain)
    assert ordered[3:9].tolist() == plain[3:9].tolist()
    assert ordered[30:99].tolist() == plain[30:99].tolist()
    assert list(ordered[5:5]) == []
    for wrong in (32, -33):
        with pytest.raises(IndexError):
            ordered[wrong]
    for value in (-1, 1 << 64):
        with pytest.raises(ValueError, match="word"):
            ordered[0] = value


def test_a_reader_cannot_store() -> None:
    ordered = ordered_words.OrderedWords(memoryview(bytes(64)).cast("Q"))
    assert ordered[0] == 0
    with pytest.raises(TypeError, match="read-only"):
        ordered[0] = 1


@pytest.fixture
def on_arm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words_module, "_NEEDS_ORDERED_WORDS", True)


@pytest.mark.usefixtures("on_arm")
def test_the_index_works_on_them() -> None:
    image = control_image(home_count=4)
    control = ControlWriter(image)
    assert isinstance(control.words, ordered_words.OrderedWords)
    writer, reader = IndexWriter(control), IndexReader(ControlReader(image))
    entry = place_consistent(writer, control, key_of(1))
    found = reader.look_up(key_of(1))
    assert isinstance(found, Entry)
    assert found == entry
    assert is_consistent(found)
    assert reader.is_unchanged(found)
    writer.retire(found.slot)
    assert not reader.is_unchanged(found)
    assert reader.look_up(key_of(1)) is None
    writer.release(found.slot)
    assert writer.repair() == []
    assert writer.raise_generation() == reader.control.generation == 2
    assert bytes(image) == bytes(np.frombuffer(image, dtype=np.uint8))


def test_who_needs_them(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not needs_ordered_words("x86_64")
    assert needs_ordered_words("aarch64")
    assert not needs_ordered_words("riscv64")
    monkeypatch.setattr(words_module.importlib.util, "find_spec", lambda _: None)
    assert not needs_ordered_words("aarch64"), "without Numba the manager is asked"


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="is about x86-64")
def test_on_x86_nothing_of_it_is_loaded() -> None:
    assert LOCK_FREE
    program = (
        "import sys; from shmcache.memory.control import ControlWriter, control_image;"
        "from shmcache.memory.index import IndexWriter; IndexWriter(ControlWriter(control_image(home_count=4)));"
        "sys.exit('numba' in sys.modules or 'shmcache.memory.ordered_words' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], timeout=60, check=False).returncode == 0
