"""Each command on a terminal of 80 columns: within them, in colour unless that is not wanted, and as in a pipe."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from shmcache.client import connect
from shmcache.memory.names import Namespace
from shmcache_tools.own_manager import own_manager
from tests.tools.support import BYTES, check_columns, run
from tests.tools.terminal import Terminal, plain

SCHEMA = {"type": "object", "properties": {f"property_{number}": {"type": "string"} for number in range(9)}}


@pytest.fixture(scope="module")
def cache() -> Iterator[tuple[Namespace, str]]:
    """A namespace whose cache has a schema and a regex, and the schema's key."""
    with own_manager("test", workers=1) as namespace, connect(BYTES, namespace.name, autostart=False) as client:
        client.compile_regex("ab*c")
        yield namespace, client.compile_json_schema(SCHEMA).key.hex()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("files")
    (directory / "a.json").write_text(json.dumps(SCHEMA), encoding="utf-8")
    (directory / "b.json").write_text(json.dumps({**SCHEMA, "maxProperties": 3}), encoding="utf-8")
    (directory / "sources.jsonl").write_text('{"regex": "ab*c"}\n{"regex": "("}\n', encoding="utf-8")
    return directory


@pytest.mark.parametrize(
    ("arguments", "code", "has_colour"),
    [
        ("status -n NAME", 0, True),
        ("ls -n NAME --all", 0, True),
        ("show KEY -n NAME", 0, True),
        ("verify -n NAME", 0, True),
        ("check FILES/a.json -i {}", 0, True),
        ("check FILES/a.json -i []", 6, True),
        ("explain-key FILES/a.json FILES/b.json", 6, True),
        ("warm FILES/sources.jsonl -n NAME", 6, True),
        ("show 00ff00ff00 -n NAME", 3, True),
        ("evict 00ff00ff00 -n NAME", 3, True),
        ("clear --tier grammar -n NAME", 0, False),
        ("clear -n NAME", 0, False),
    ],
)
def test_a_command_before_ones_eyes(
    cache: tuple[Namespace, str], files: Path, terminals: list[Terminal], arguments: str, code: int, has_colour: bool
) -> None:
    namespace, key = cache
    words = [
        word.replace("NAME", namespace.name).replace("KEY", key).replace("FILES", str(files))
        for word in arguments.split()
    ]
    shown = {}
    for colour in ("", "1"):
        terminals.append(Terminal(*words, NO_COLOR=colour))
        shown[colour] = terminals[-1].everything()
        assert terminals[-1].process.returncode == code, shown[colour]
        check_columns(plain(shown[colour]).replace(str(files), "files").replace("\r", "\n"))
    assert ("\x1b[" in shown[""]) == has_colour
    assert "\x1b[" not in shown["1"]
    piped = run(*words)
    assert piped.returncode == code
    assert "\x1b" not in piped.stdout + piped.stderr
    check_columns((piped.stdout + piped.stderr).replace(str(files), "files"))
    if piped.stdout and words[0] != "warm":
        assert piped.stdout.split()[0] == plain(shown["1"]).split()[0]
