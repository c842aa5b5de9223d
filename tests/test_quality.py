"""The tree keeps to its own rules: linted, formatted, typed, and written as the style guide asks."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

SOURCE_FOLDERS = ["shmcache", "workers", "tools", "tests"]
CODE_LINES_MAX = 400
TEST_LINES_MAX = 600
UNFINISHED = re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME|XX" + r"X|HA" + r"CK)\b")

FILES = sorted(path for folder in SOURCE_FOLDERS for path in (REPOSITORY / folder).rglob("*.py"))
NAMES = [str(path.relative_to(REPOSITORY)) for path in FILES]


def run_tool(*arguments: str) -> None:
    """Runs ``python -m`` with the arguments in the repository; its output is the failure."""
    run = subprocess.run(
        [sys.executable, "-m", *arguments], cwd=REPOSITORY, capture_output=True, text=True, timeout=110, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr


def test_lint() -> None:
    run_tool("ruff", "check", "--no-cache", ".")


def test_format() -> None:
    run_tool("ruff", "format", "--check", "--no-cache", ".")


def test_types(request: pytest.FixtureRequest) -> None:
    cache = request.config.cache
    assert cache is not None
    run_tool("mypy", "--cache-dir", str(cache.mkdir("mypy")))


def complaints(name: str, text: str) -> Iterator[str]:
    """What the file ``name`` does that the rules forbid and the linter does not see."""
    tree = ast.parse(text)
    in_tests = name.startswith("tests/")
    lines = text.count("\n")
    lines_max = TEST_LINES_MAX if in_tests else CODE_LINES_MAX
    if lines > lines_max:
        yield f"{lines} lines are more than {lines_max}"
    if tree.body and ast.get_docstring(tree) is None:
        yield "no docstring says what the module owns"
    for number, line in enumerate(text.splitlines(), start=1):
        if UNFINISHED.search(line):
            yield f"line {number} is unfinished business: it belongs into an issue"
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        if in_tests and called in {"time.sleep", "sleep", "asyncio.sleep"}:
            yield f"line {node.lineno} sleeps: wait for an event, with a guard"
        if called == "print" and not (in_tests or name.startswith("tools/")):
            yield f"line {node.lineno} prints"


@pytest.mark.parametrize("name", NAMES)
def test_tree(name: str) -> None:
    assert list(complaints(name, (REPOSITORY / name).read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("shmcache/a.py", "x = 1\n"),
        ("shmcache/a.py", '"""Owns."""\n' + "x = 1\n" * CODE_LINES_MAX),
        ("tests/test_a.py", '"""Tests."""\n' + "x = 1\n" * TEST_LINES_MAX),
        ("shmcache/a.py", '"""Owns."""\n# TO' + "DO: more\n"),
        ("shmcache/a.py", '"""Owns."""\nprint(1)\n'),
        ("tests/test_a.py", '"""Tests."""\nimport time\ntime.sleep(1)\n'),
    ],
)
def test_a_breach_is_found(name: str, text: str) -> None:
    assert len(list(complaints(name, text))) == 1


def test_clean_text_is_not_a_breach() -> None:
    assert list(complaints("shmcache/__init__.py", "")) == []
    assert list(complaints("shmcache/a.py", '"""Owns."""\n' + "x = 1\n" * (CODE_LINES_MAX - 1))) == []
    assert list(complaints("tools/shmcache_tools/a.py", '"""Owns."""\nprint(1)\n')) == []


def test_the_reference_subset_passes_without_compiled_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not marked ``reference`` itself, so that it does not select itself."""
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    run_tool("pytest", "-q", "-x", "-m", "reference", "-p", "no:cacheprovider")


def test_the_licence_is_the_one_stated() -> None:
    assert Path(REPOSITORY / "LICENSE").read_text(encoding="utf-8").split()[:3] == ["Apache", "License", "Version"]
