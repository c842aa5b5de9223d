"""Nothing that a manager or a worker does to the world goes past :mod:`shmcache.memory.steps`.

The source is read for it: what may be called is listed, so that a call nobody thought of is found too.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from shmcache.memory import steps
from tests.test_import_direction import MODULES, layer_of

SEAM = "shmcache.memory.steps"
LOOKING = {
    "os": {
        *(
            "access",
            "environ",
            "fsencode",
            "fstat",
            "lstat",
            "path",
            "scandir",
            "stat",
            "stat_result",
            "statvfs",
            "strerror",
            "sysconf",
            "urandom",
        ),
        *("geteuid", "getpid", "getppid", "pidfd_open"),
        *("close", "dup", "pipe2", "pread", "read", "SEEK_SET"),
    },
    "fcntl": set[str](),
    "signal": {"signal", "SIG_IGN", "SIGINT", "SIGIO", "SIGKILL", "SIGTERM"},
    "subprocess": {"DEVNULL", "Popen"},
    "mmap": {"mmap", "MAP_PRIVATE", "MAP_SHARED", "PAGESIZE", "PROT_READ", "PROT_WRITE"},
    "shutil": set[str](),
}
"""What may be used of the modules that reach the system: what looks, lets go, or concerns this process alone."""

DOING = {
    *("chmod", "hardlink_to", "mkdir", "rename", "replace", "rmdir", "symlink_to", "touch", "unlink"),
    *("truncate", "write_bytes", "write_text", "flush"),
    *("bind", "listen", "send", "sendall", "sendfile", "sendmsg", "sendto"),
    *("kill", "send_signal", "terminate"),
}
"""Methods by which a path, a socket, a file, a process or a mapping is changed."""

OURS = {
    "self",
    "connection",
    "_channel",
    "_supervisor",
    "_client_side",
    "_worker_side",
    "server",
    "recency",
    "_recency",
}
"""Receivers whose methods of these names are ours: they lead to the seam themselves."""

PRIVATE = {("shmcache.memory.control", "control_image"), ("shmcache.memory.recency", "create_recency")}
"""Functions that store into bytes of their own, which nobody else sees before they are published."""


BESIDE_ENGINES = {
    f"shmcache_workers.{name}"
    for name in (
        "engine_caches",
        "engine_matcher",
        "engine_plugins",
        "huggingface",
        "sglang_backend",
        "vllm_backend",
    )
}
"""Modules that run inside of inference: they are clients, and no step of theirs changes shared memory."""


def watched() -> list[str]:
    """The modules whose steps go through the seam."""
    layers = {"shmcache.memory", "shmcache.manager", "shmcache_workers"}
    watched = {module for module in MODULES if layer_of(module) in layers}
    return sorted(watched - {SEAM} - BESIDE_ENGINES)


def bypasses(module: str, text: str) -> list[str]:
    """What in ``text``, the source of ``module``, goes past the seam."""
    return [f"{module}:{node.lineno} {what}" for node, what in _walk(module, ast.parse(text))]


def _walk(module: str, tree: ast.AST, function: str = "") -> Iterator[tuple[ast.expr, str]]:
    for node in ast.iter_child_nodes(tree):
        inside = node.name if isinstance(node, ast.FunctionDef) else function
        if isinstance(node, ast.Attribute):
            yield from _attribute(node)
        elif isinstance(node, ast.Call):
            yield from _call(node)
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store) and (module, inside) not in PRIVATE:
            target = ast.unparse(node.value)
            if any(word in target.lower() for word in ("words", "buffer", "mapped", "row", "view")):
                yield node, f"stores into {target}"
        yield from _walk(module, node, inside)


def _attribute(node: ast.Attribute) -> Iterator[tuple[ast.expr, str]]:
    if isinstance(node.value, ast.Name) and node.value.id in LOOKING:
        is_constant = node.attr.isupper() and node.value.id in ("os", "fcntl")
        if node.attr not in LOOKING[node.value.id] and not is_constant:
            yield node, f"uses {node.value.id}.{node.attr}"


def _call(node: ast.Call) -> Iterator[tuple[ast.expr, str]]:
    called = ast.unparse(node.func)
    receiver = called.split(".")[-2] if "." in called else ""
    if isinstance(node.func, ast.Attribute) and node.func.attr in DOING and receiver not in {"steps", *LOOKING, *OURS}:
        yield node, f"calls {called}"
    if called == "subprocess.Popen":
        yield node, f"calls {called}"
    if called == "open" and (len(node.args) > 1 and ast.unparse(node.args[1]) != "'rb'"):
        yield node, "opens a file for writing"


@pytest.mark.parametrize("module", watched())
def test_every_step_goes_through_the_seam(module: str) -> None:
    assert bypasses(module, MODULES[module].read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "text",
    [
        "os.unlink(path)",
        "os.rename(a, b)",
        "fcntl.fcntl(descriptor, fcntl.F_SETLEASE, 1)",
        "path.unlink(missing_ok=True)",
        "self._socket.sendall(data)",
        "subprocess.Popen(['x'])",
        "signal.pidfd_send_signal(pidfd, 9)",
        "words[3] = 1",
        "self.control.words[3] += 1",
        "open(path, 'w')",
        "mapped.flush()",
        "shutil.rmtree(path)",
    ],
)
def test_a_bypass_is_found(text: str) -> None:
    assert len(bypasses("shmcache.memory.names", text)) == 1


def test_every_kind_of_step_has_a_name() -> None:
    assert all(callable(getattr(steps, name)) for name in steps.NAMES)
    assert len(set(steps.NAMES)) == len(steps.NAMES)
    public = {name for name, value in vars(steps).items() if callable(value) and not name.startswith("_")}
    assert public - {"Path"} == set(steps.NAMES)


def test_every_kind_of_step_is_made_somewhere() -> None:
    used = {
        node.attr
        for module in watched()
        for node in ast.walk(ast.parse(MODULES[module].read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "steps"
    }
    assert used == set(steps.NAMES)
