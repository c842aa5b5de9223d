"""The documentation builds without a warning, its examples run, and its links lead somewhere.

Warnings are errors of the build: among them are links between pages and to headings, and names of Python that no page
has. Addresses on the network are not looked at.
"""

from __future__ import annotations

import ast
import builtins
import doctest
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import shmcache
from shmcache.manager.policy import Policy
from shmcache.memory.layout import Tier
from tests import newcomer
from tests.conftest import REPOSITORY
from tests.newcomer import blocks

DOCS = REPOSITORY / "docs"
PAGES = [REPOSITORY / "README.md", *sorted(DOCS.rglob("*.md"))]
OUTSIDE = [REPOSITORY / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")]
BUILD_SECONDS_MAX = 100

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")

GIVEN = {"token_id": 0}
"""What an example may use without making it: the token that a model sampled."""

BUILD = """
import sys
from sphinx.cmd.build import main
status = main(sys.argv[1:])
heavy = [name for name in ("numba", "llvmlite") if name in sys.modules]
sys.exit(f"the build imported {heavy}" if heavy else status)
"""


def test_the_site_builds_without_warnings_and_kernels(tmp_path: Path) -> None:
    before = sorted(DOCS.rglob("*"))
    arguments = ["-q", "-W", "--keep-going", "-b", "html", "-d", str(tmp_path / "doctrees")]
    run = subprocess.run(
        [sys.executable, "-c", BUILD, *arguments, str(DOCS), str(tmp_path / "site")],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=BUILD_SECONDS_MAX,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    built = {page.relative_to(tmp_path / "site").with_suffix(".md") for page in (tmp_path / "site").rglob("*.html")}
    assert built >= {page.relative_to(DOCS) for page in PAGES if page.is_relative_to(DOCS)}
    assert 'id="shmcache.GrammarMatcher.accept_token"' in (tmp_path / "site/reference/api.html").read_text()
    assert sorted(DOCS.rglob("*")) == before


def test_a_broken_link_fails_the_build(tmp_path: Path) -> None:
    (tmp_path / "conf.py").write_text((DOCS / "conf.py").read_text(encoding="utf-8"))
    (tmp_path / "index.md").write_text("# Title\n\n[nowhere](nowhere.md)\n")
    run = subprocess.run(
        [sys.executable, "-m", "sphinx", "-q", "-W", "-b", "dummy", str(tmp_path), str(tmp_path / "site")],
        capture_output=True,
        text=True,
        timeout=BUILD_SECONDS_MAX,
        check=False,
    )
    assert run.returncode != 0
    assert "nowhere" in run.stderr


def test_the_reference_has_every_public_name_and_no_other_class() -> None:
    text = (DOCS / "reference/api.md").read_text(encoding="utf-8")
    documented = re.findall(r"^\.\. auto(?:class|function|exception):: (\w+)(?:\(\))?$", text, re.MULTILINE)
    assert sorted(documented) == sorted(shmcache.__all__)


@pytest.mark.parametrize("page", OUTSIDE, ids=lambda page: page.name)
def test_links_of_the_pages_outside_lead_to_files(page: Path) -> None:
    targets = [link.partition("#")[0] for link in LINK.findall(page.read_text(encoding="utf-8")) if "://" not in link]
    assert [target for target in targets if target and not (page.parent / target).exists()] == []


def imported_and_unknown_names(code: str, known: set[str]) -> tuple[set[str], set[str]]:
    """The packages that a piece of code imports, and the names that it uses and nobody has made."""
    packages: set[str] = set()
    made, used = set(known) | set(vars(builtins)), set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            packages |= {alias.name.partition(".")[0] for alias in node.names}
            made |= {alias.asname or alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            packages.add((node.module or "").partition(".")[0])
            made |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            made.add(node.name)
        elif isinstance(node, ast.arg):
            made.add(node.arg)
        elif isinstance(node, ast.Name):
            (used if isinstance(node.ctx, ast.Load) else made).add(node.id)
    return packages, used - made


def self_contained(page: Path) -> list[str]:
    """The examples of a page that need nothing but this package and what the examples before them have made."""
    known = set(GIVEN)
    chosen: list[str] = []
    for code in blocks(page, "python"):
        packages, unknown = imported_and_unknown_names(code, known)
        if unknown or packages - sys.stdlib_module_names - {"shmcache", "numpy"}:
            continue
        chosen.append(code)
        known |= {node.id for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name)}
        known |= packages
    return chosen


def named(pages: list[Path]) -> list[Any]:
    """Pages as parameters of a test."""
    return [pytest.param(page, id=str(page.relative_to(REPOSITORY))) for page in pages]


@pytest.mark.tekken
@pytest.mark.timeout(300)  # Alone on a fresh checkout it compiles the kernels.
@pytest.mark.parametrize("page", named([page for page in PAGES if self_contained(page)]))
def test_examples_run(page: Path, namespace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHMCACHE_NAMESPACE", namespace)
    names: dict[str, Any] = dict(GIVEN)
    for code in self_contained(page):
        exec(compile(code, str(page), "exec"), names)
    for value in names.values():
        if isinstance(value, shmcache.GrammarCache):
            value.close()


@pytest.mark.tekken
@pytest.mark.timeout(300)
def test_the_commands_of_the_quickstart_end_with_a_hit(
    tmp_path: Path, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In this environment; ``python -m tests.newcomer`` makes a new one."""
    monkeypatch.setenv("SHMCACHE_NAMESPACE", namespace)
    (tmp_path / ".venv").symlink_to(sys.prefix)
    lines = [line for line in newcomer.commands() if not newcomer.is_installation(line)]
    assert len(lines) == 3
    printed = [text for _, _, text in newcomer.run(lines, tmp_path)]
    assert printed[0] == printed[1]
    assert printed[0] in blocks(newcomer.QUICKSTART, "text")
    assert newcomer.hits(printed[2]) == 1


@pytest.mark.parametrize("page", ["README.md", "docs/quickstart.md"])
def test_the_examples_of_the_first_pages_are_all_run(page: str) -> None:
    found = self_contained(REPOSITORY / page)
    assert found == blocks(REPOSITORY / page, "python") != []


@pytest.mark.parametrize("page", named([page for page in PAGES if blocks(page, "pycon")]))
def test_sessions_print_what_they_show(page: Path) -> None:
    session = "\n".join(blocks(page, "pycon"))
    test = doctest.DocTestParser().get_doctest(session, {}, page.name, str(page), 0)
    report: list[str] = []
    results = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=report.append)
    assert results.attempted > 0
    assert results.failed == 0, "".join(report)


def test_what_is_not_self_contained_is_told_from_what_is(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    codes = ["import json\nx = json.dumps(1)\n", "import torch\n", "print(x, token_id)\n", "print(y)\n"]
    page.write_text("\n".join(f"```python\n{code}```\n" for code in codes))
    assert self_contained(page) == [codes[0], codes[2]]


NUMBERS = [
    ("rows", "an eighth of the trie", ("shmcache.rows.rule_walker", "_WIDE_PART"), 8),
    ("rows", "no more than four walks", ("shmcache.rows.rule_walker", "_WALKS_MAX"), 4),
    ("rows", "at least a sixteenth of the trie", ("shmcache.rows.rule_walker", "BESIDE_PART"), 16),
    ("automata", "goes on with 64 bytes or more", ("shmcache.automaton.inlining", "WIDE_SYMBOLS"), 64),
    ("rule-tier", "groups of more than 64 rules", ("shmcache.automaton.structure", "_UNFOLDED_RULES_MAX"), 64),
    ("look-up", "*window* of 64 slots", ("shmcache.memory.layout", "WINDOW_SLOTS"), 64),
    ("matcher", "more than 4,096 pairs", ("shmcache.limits", "CONFIGURATION_ENTRIES_MAX"), 4096),
]


def text_of(page: str) -> str:
    """A page without its line breaks."""
    return " ".join((DOCS / page).read_text(encoding="utf-8").split())


@pytest.mark.parametrize(("page", "phrase", "constant", "value"), NUMBERS)
def test_numbers_that_the_pages_of_ideas_name(page: str, phrase: str, constant: tuple[str, str], value: int) -> None:
    assert phrase in text_of(f"how/{page}.md")
    assert getattr(import_module(constant[0]), constant[1]) == value


def test_the_policy_is_what_the_pages_of_ideas_say() -> None:
    policy = Policy(limit_bytes=900)
    assert (policy.limit_of(Tier.GRAMMAR), policy.limit_of(Tier.RULE)) == (600, 300)
    assert (policy.grace_seconds, policy.attempts_max) == (2.0, 2)
    assert "two thirds of the limit and rules one third" in text_of("how/account.md")
    assert "two seconds past it" in text_of("how/processes.md")
    assert "if that dies too" in text_of("how/processes.md")
