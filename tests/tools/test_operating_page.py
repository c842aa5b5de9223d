"""docs/operating.md says what the code does: commands, settings, findings, the shape of ``stats()``."""

from __future__ import annotations

import ast
import re

from shmcache import settings
from shmcache_tools.exit_codes import ExitCode
from shmcache_tools.kernel_checks import PROBES
from shmcache_tools.main import COMMANDS
from tests.conftest import REPOSITORY
from tests.tools.support import STATS_SHAPE

PAGE = (REPOSITORY / "docs" / "operating.md").read_text(encoding="utf-8")
TOOLS = REPOSITORY / "tools" / "shmcache_tools"


def section(title: str) -> str:
    """The text between a heading and the next one of its level or above."""
    level, _, _ = title.partition(" ")
    after = PAGE.partition(f"\n{title}\n")[2]
    assert after, title
    return re.split(rf"\n#{{2,{len(level)}}} ", after)[0]


def first_column(text: str) -> set[str]:
    """Every name in backticks in the first column of the tables of a text."""
    cells = re.findall(r"^\| (`.*?) \|", text, re.MULTILINE)
    return {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


def test_every_command_is_there() -> None:
    named = {name.split()[0] for name in first_column(section("## Commands"))}
    assert named == set(COMMANDS)


def test_every_exit_code_is_there() -> None:
    assert re.findall(r"^\| (\d) \|", PAGE, re.MULTILINE) == [str(int(code)) for code in ExitCode]


def test_every_setting_is_there_with_its_meaning() -> None:
    rows = dict(re.findall(r"^\| `(SHMCACHE_[A-Z_]+)` \| (.+?) \|", section("## Settings"), re.MULTILINE))
    assert rows == {setting.variable: setting.meaning.partition("; default")[0] for setting in settings.ALL}


def test_every_finding_is_there() -> None:
    codes = {probe.code for probe in PROBES}
    for path in TOOLS.glob("*_checks.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "find":
                code = node.args[0]
                codes |= {code.value} if isinstance(code, ast.Constant) and isinstance(code.value, str) else set()
    assert len(codes) > 20
    assert first_column(section("## What doctor finds")) == codes


def test_every_field_of_stats_is_there() -> None:
    assert first_column(section("### The shape of stats")) == STATS_SHAPE.keys()
