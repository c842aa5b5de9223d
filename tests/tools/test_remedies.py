"""Each error as its user meets it: code, message, place, remedy and exit code, for people and for programs."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from shmcache import errors
from shmcache.errors import (
    LimitError,
    ManagerUnavailable,
    SegmentError,
    ShmCacheError,
    SourceError,
    UnsupportedError,
)
from shmcache.manager.fields import WireError
from shmcache_tools import remedies
from shmcache_tools.exit_codes import ExitCode, NotFoundError
from shmcache_tools.main import LazyGroup
from shmcache_tools.options import json_option
from shmcache_tools.remedies import remedy_of
from tests.conftest import REPOSITORY
from tests.tools.support import check_columns, document, run

TABLE: tuple[tuple[ShmCacheError, ExitCode, str], ...] = (
    (SourceError("the value of 'type' is wrong", pointer="/properties/a/type"), ExitCode.FAILURE, "correct the source"),
    (SourceError("unbalanced", line=1, column=3), ExitCode.FAILURE, "correct the source"),
    (UnsupportedError("no look-behind", feature="look-behind", pointer="/pattern"), ExitCode.FAILURE, "on_unsupported"),
    (LimitError("too slow", limit="seconds", value=30.0), ExitCode.FAILURE, "SHMCACHE_COMPILE_SECONDS"),
    (LimitError("too many", limit="states", value=400_000), ExitCode.FAILURE, "simplify"),
    (LimitError("no room", limit="shm_bytes"), ExitCode.FAILURE, "--shm-size"),
    (SegmentError("control layout 9, ours is 2"), ExitCode.INCOMPATIBLE, "doctor"),
    (ManagerUnavailable("no manager answers"), ExitCode.NO_MANAGER, "shmcache serve"),
    (NotFoundError("no entry has that key"), ExitCode.NOT_FOUND, "shmcache ls"),
    (WireError("no message"), ExitCode.FAILURE, "restart the manager"),
    (ShmCacheError("internal error while compiling"), ExitCode.FAILURE, "log"),
)


def raising(error: ShmCacheError) -> click.Group:
    """The group with one command, which ends with that error."""

    class Group(LazyGroup):
        def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command:
            @click.command()
            @json_option
            def command(as_json: bool) -> None:
                raise error

            return command

    return Group("shmcache")


@pytest.mark.parametrize(("error", "code", "remedy"), TABLE, ids=[f"{e.code}-{i}" for i, (e, _, _) in enumerate(TABLE)])
def test_an_error_as_its_user_meets_it(error: ShmCacheError, code: ExitCode, remedy: str) -> None:
    shown = CliRunner().invoke(raising(error), ["it"])
    assert shown.exit_code == code
    assert shown.stdout == ""
    check_columns(shown.stderr)
    assert shown.stderr.startswith(f"error {error.code}: {error.message}")
    for name, value in error.details.items():
        assert f"  {name}: {value}\n" in shown.stderr
    plain = " ".join(shown.stderr.split())
    assert remedy in plain.partition("remedy: ")[2]
    told = CliRunner().invoke(raising(error), ["it", "--json"])
    assert told.exit_code == code
    assert document(told.stdout)["error"] == {**error.to_plain(), "remedy": remedy_of(error)}


def test_every_error_of_the_package_is_in_the_table() -> None:
    classes = {kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, ShmCacheError)}
    codes = {kind.code for kind in classes}
    assert codes <= {error.code for error, _, _ in TABLE}
    assert codes <= remedies.BY_CODE.keys()


def test_every_limit_has_a_remedy() -> None:
    """Whatever is given as ``limit=`` of a LimitError, anywhere in the sources."""
    found: set[str] = set()
    for root in ("shmcache", "workers", "tools"):
        for path in (REPOSITORY / root).rglob("*.py"):
            found |= _limits(path)
    assert len(found) > 8
    assert found <= remedies.BY_LIMIT.keys()


def _limits(path: Path) -> set[str]:
    calls = [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)]
    keywords = [
        keyword
        for call in calls
        if isinstance(call.func, ast.Name) and call.func.id.endswith("LimitError")
        for keyword in call.keywords
    ]
    return {
        keyword.value.value
        for keyword in keywords
        if keyword.arg == "limit" and isinstance(keyword.value, ast.Constant) and isinstance(keyword.value.value, str)
    }


def test_commands_that_a_remedy_names_exist() -> None:
    from shmcache_tools.main import COMMANDS

    for text in (*remedies.BY_CODE.values(), *remedies.BY_LIMIT.values()):
        assert set(re.findall(r"`shmcache ([a-z-]+)", text)) <= set(COMMANDS)


def test_codes_are_documented_with_their_exit_code() -> None:
    text = (REPOSITORY / "docs" / "operating.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `([A-Z_]+)` \|.*\| (\d) \|$", text, re.MULTILINE))
    expected = {error.code: str(int(code)) for error, code, _ in TABLE if error.code not in ("WIRE", "SHMCACHE_ERROR")}
    assert rows == expected


def test_a_real_one(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"properties": {"a": {"type": "strin"}}}', encoding="utf-8")
    result = run("check", str(path))
    assert result.returncode == 1
    check_columns(result.stderr)
    assert "pointer: /properties/a/type" in result.stderr
    assert "remedy: " in result.stderr
