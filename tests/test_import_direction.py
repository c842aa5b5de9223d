"""Imports point down the layers, never up, and the costly library stays behind one door."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

LAYERS = [
    "shmcache.errors",
    "shmcache.limits",
    "shmcache.array_types",
    "shmcache.settings",
    "shmcache.vocabulary",
    "shmcache.regular",
    "shmcache.grammar",
    "shmcache.automaton",
    "shmcache.rows",
    "shmcache.image",
    "shmcache.matcher",
    "shmcache.compiler",
    "shmcache.memory",
    "shmcache.manager",
    "shmcache.private",
    "shmcache.client",
    "shmcache.compat",
    "shmcache",
    "shmcache_workers",
    "shmcache_tools",
]
"""Low to high: a module imports only from its own layer and from lower ones."""

NARROWER = {
    "shmcache.memory": {"shmcache.errors", "shmcache.limits", "shmcache.settings"},
    "shmcache.manager": {"shmcache.errors", "shmcache.limits", "shmcache.settings", "shmcache.memory"},
}
"""Layers that see less than everything below them: the cache's machinery knows nothing of grammars."""

KERNEL_MODULES = {
    "shmcache.rows.entries",
    "shmcache.rows.kernels",
    "shmcache.rows.counting_kernels",
    "shmcache.rows.trie_kernels",
    "shmcache.memory.ordered_words",
}
"""The only modules that may import Numba; they are imported inside the functions that need them."""

FORBIDDEN = {"multiprocessing.shared_memory", "pickle"}
"""Shared memory that unlinks other processes' segments; a format that runs what it reads."""

SOURCE_ROOTS = [REPOSITORY, REPOSITORY / "workers", REPOSITORY / "tools"]


def modules() -> dict[str, Path]:
    """Every module of the project by its dotted name."""
    found = {}
    for root in SOURCE_ROOTS:
        for package in sorted(root.glob("shmcache*/__init__.py")):
            for path in sorted(package.parent.rglob("*.py")):
                parts = path.relative_to(root).with_suffix("").parts
                found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


def layer_of(module: str) -> str:
    """The layer a module belongs to; a package's ``__init__`` at the top is a layer of its own."""
    if module.split(".")[0] != "shmcache":
        return module.split(".")[0]
    return ".".join(module.split(".")[:2])


def imports(module: str, tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Each imported module and the line where it is imported, wherever in the module that is."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}:{node.lineno} imports relatively"
            assert node.module is not None
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                yield (name if name in MODULES or name in FORBIDDEN else node.module), node.lineno


def run_at_import(tree: ast.Module) -> Iterator[ast.stmt]:
    """The top-level statements that run when the module is imported; functions and type-checking blocks do not."""
    for node in tree.body:
        is_for_types = isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")
        if not is_for_types and not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node


def violations(module: str, text: str) -> list[str]:
    """What ``text``, as the source of ``module``, imports that it must not."""
    layer = layer_of(module)
    allowed = NARROWER.get(layer, set(LAYERS[: LAYERS.index(layer)])) | {layer}
    tree = ast.parse(text)
    at_import = {name for node in run_at_import(tree) for name, _ in imports(module, node)}
    found = []
    for name, line in imports(module, tree):
        where = f"{module}:{line} imports {name}"
        if name.split(".")[0].startswith("shmcache") and layer_of(name) not in allowed:
            found.append(f"{where}, which is above it")
        if any(name == bad or name.startswith(f"{bad}.") for bad in FORBIDDEN):
            found.append(f"{where}, which is forbidden")
        if name.split(".")[0] in {"numba", "llvmlite"} and module not in KERNEL_MODULES:
            found.append(f"{where}, which only {', '.join(sorted(KERNEL_MODULES))} may")
        if name in KERNEL_MODULES and name in at_import and module not in KERNEL_MODULES:
            found.append(f"{where} outside a function")
    return found


def test_every_module_has_a_layer() -> None:
    assert len(MODULES) > 10
    assert {layer_of(module) for module in MODULES} <= set(LAYERS)


@pytest.mark.parametrize("module", sorted(MODULES))
def test_imports_point_down(module: str) -> None:
    assert violations(module, MODULES[module].read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("module", "text"),
    [
        ("shmcache.errors", "import shmcache.limits"),
        ("shmcache.vocabulary.trie", "from shmcache.grammar.ir import Grammar"),
        ("shmcache.vocabulary.trie", "def f():\n    from shmcache import grammar"),
        ("shmcache.memory.names", "from shmcache.vocabulary.vocabulary import Vocabulary"),
        ("shmcache.manager.core", "from shmcache.grammar import ir"),
        ("shmcache.compiler", "import shmcache.client"),
        ("shmcache.client", "import shmcache_workers"),
        ("shmcache_workers", "import shmcache_tools"),
        ("shmcache.client", "import numba"),
        ("shmcache.client", "def f():\n    from numba import njit"),
        ("shmcache.client", "from multiprocessing import shared_memory"),
        ("shmcache.client", "from multiprocessing.shared_memory import SharedMemory"),
        ("shmcache.client", "import pickle"),
        ("shmcache.matcher.matcher", "from shmcache.rows.kernels import walk"),
        ("shmcache.matcher.matcher", "from shmcache.rows.trie_kernels import walk"),
        (
            "shmcache.matcher.matcher",
            "try:\n    from shmcache.rows.kernels import walk\nexcept ImportError:\n    raise",
        ),
    ],
)
def test_a_wrong_import_is_found(module: str, text: str) -> None:
    assert len(violations(module, text)) == 1


@pytest.mark.parametrize(
    ("module", "text"),
    [
        ("shmcache.vocabulary.trie", "from shmcache.errors import SegmentError"),
        ("shmcache.vocabulary.trie", "import shmcache.vocabulary.sections"),
        ("shmcache.manager.core", "from shmcache.memory.names import Namespace"),
        ("shmcache.matcher.matcher", "def f():\n    from shmcache.rows.kernels import walk"),
        ("shmcache.rows.rows", "if TYPE_CHECKING:\n    from shmcache.rows.kernels import Front"),
        ("shmcache.rows.kernels", "from numba import njit"),
        ("shmcache", "from shmcache.client import connect"),
        ("shmcache_tools.main", "import shmcache_workers, json"),
    ],
)
def test_a_right_import_is_not(module: str, text: str) -> None:
    assert violations(module, text) == []
