"""The entry points: cheap to import, harmless where they are not wanted, and named as the engines look for them."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from types import ModuleType

import pytest

from shmcache_workers import engine_plugins
from tests.conftest import REPOSITORY

HEAVY = ("numpy", "numba", "torch", "sglang", "vllm", "xgrammar", "transformers", "shmcache.client", "msgpack")


def test_importing_the_plug_ins_loads_nothing_heavy() -> None:
    report = f"import sys; print([name for name in {HEAVY!r} if name in sys.modules])"
    code = f"import shmcache_workers.engine_plugins as plugins; plugins.register_vllm(); {report}"
    run = subprocess.run(
        [sys.executable, "-c", code], env={"PATH": ""}, capture_output=True, text=True, timeout=60, check=True
    )
    assert run.stdout == "[]\n"


@pytest.mark.parametrize(
    ("group", "function"),
    [("sglang.srt.plugins", engine_plugins.register_sglang), ("vllm.general_plugins", engine_plugins.register_vllm)],
)
def test_the_entry_points_name_the_functions(group: str, function: object) -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["entry-points"][group] == {"shmcache": f"{function.__module__}:{function.__name__}"}


@pytest.mark.parametrize("value", [None, "", "0", "yes"])
def test_vllm_is_left_alone_unless_asked_for(monkeypatch: pytest.MonkeyPatch, value: str | None) -> None:
    monkeypatch.setitem(sys.modules, "shmcache_workers.vllm_backend", _Refusing("shmcache_workers.vllm_backend"))
    monkeypatch.delenv("SHMCACHE_VLLM", raising=False)
    if value is not None:
        monkeypatch.setenv("SHMCACHE_VLLM", value)
    engine_plugins.register_vllm()


class _Refusing(ModuleType):
    """A module of ours that has nothing we look for in it."""

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        raise AssertionError(f"{name} is looked for")


@pytest.mark.parametrize("backend", [None, _Refusing("shmcache_workers.vllm_backend")])
def test_a_failure_does_not_reach_vllm(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, backend: ModuleType | None
) -> None:
    monkeypatch.setitem(sys.modules, "shmcache_workers.vllm_backend", backend)
    monkeypatch.setenv("SHMCACHE_VLLM", "1")
    if backend is None:
        engine_plugins.register_vllm()
        assert "keeps its own XGrammar backend" in caplog.text
    else:
        with pytest.raises(AssertionError):
            backend.rebind()


def test_sglang_gets_its_choice_once(monkeypatch: pytest.MonkeyPatch) -> None:
    choices = ModuleType("sglang.srt.arg_groups.choices")
    choices.GRAMMAR_BACKEND_CHOICES = ["xgrammar"]  # type: ignore[attr-defined]
    choices.add_grammar_backend_choices = choices.GRAMMAR_BACKEND_CHOICES.extend  # type: ignore[attr-defined]
    base = ModuleType("sglang.srt.constrained.base_grammar_backend")
    registry: dict[str, object] = {}
    base.register_grammar_backend = registry.__setitem__  # type: ignore[attr-defined]
    for name in ("sglang", "sglang.srt", "sglang.srt.arg_groups", "sglang.srt.constrained"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, choices.__name__, choices)
    monkeypatch.setitem(sys.modules, base.__name__, base)
    for _ in range(2):
        engine_plugins.register_sglang()
    assert choices.GRAMMAR_BACKEND_CHOICES == ["xgrammar", "shmcache"]
    assert list(registry) == ["shmcache"]
