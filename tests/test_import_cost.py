"""What starts often starts light: importing the package loads neither Numba nor a tokenizer library."""

from __future__ import annotations

import subprocess
import sys

import pytest

from shmcache.memory.control import create_control
from shmcache.memory.names import Namespace

HEAVY = ["numba", "llvmlite", "mistral_common", "tiktoken", "tokenizers", "sentencepiece", "pydantic", "llguidance"]
HEAVY += ["referencing", "jsonschema_specifications"]


def loaded_by(statements: str) -> set[str]:
    """Which heavy libraries a fresh interpreter has loaded after ``statements``."""
    report = f"import sys; sys.stdout.write(' '.join(name for name in {HEAVY!r} if name in sys.modules))"
    run = subprocess.run(
        [sys.executable, "-c", f"{statements}\n{report}"], capture_output=True, text=True, timeout=60, check=True
    )
    return set(run.stdout.split())


@pytest.mark.parametrize(
    "statements",
    [
        "import shmcache",
        "import shmcache.vocabulary.vocabulary, shmcache.vocabulary.trie",
        "import shmcache.memory.names",
        "from shmcache.vocabulary.vocabulary import Vocabulary; Vocabulary([b'a', b'b']).trie",
    ],
)
def test_no_heavy_library_is_loaded(statements: str) -> None:
    assert loaded_by(statements) == set()


@pytest.mark.tekken
def test_the_packaged_vocabulary_is_read_without_its_library() -> None:
    assert loaded_by("from shmcache.vocabulary.vocabulary import Vocabulary; Vocabulary.from_mistral()") == set()


LIGHT = (
    *("status", "top", "ls", "show 00", "clear", "evict 00", "metrics", "verify", "gc", "doctor"),
    *("warm /dev/null", "--help", "serve --help", "check --help", "demo --help", "bench --help"),
)


@pytest.mark.parametrize("command", LIGHT)
def test_a_command_starts_light(command: str, namespace: str) -> None:
    create_control(Namespace.of(namespace))
    arguments = [*command.split(), *([] if "--help" in command else ["--namespace", namespace])]
    # Some find nothing, or no manager.
    run = f"with suppress(SystemExit), redirect_stdout(StringIO()): main({arguments!r}, standalone_mode=False)"
    imports = "from contextlib import redirect_stdout, suppress; from io import StringIO"
    imports += "; from shmcache_tools.main import main"
    assert loaded_by(f"{imports}\n{run}") == set()


def test_what_is_loaded_is_noticed() -> None:
    assert loaded_by("import sentencepiece") == {"sentencepiece"}
