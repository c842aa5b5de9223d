"""What is checked is what the README tells a reader to type."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

MARKED = "# Title\n\n```sh\nexit 9\n```\n\n<!-- command: test -->\n```sh\n{line}\n```\n\n```sh\nexit 8\n```\n"


def run_ci(folder: Path, readme: str) -> subprocess.CompletedProcess[str]:
    """Runs a copy of ``.ci/run`` beside that README."""
    (folder / ".ci").mkdir()
    shutil.copy(REPOSITORY / ".ci/run", folder / ".ci/run")
    (folder / "README.md").write_text(readme)
    return subprocess.run([folder / ".ci/run"], capture_output=True, text=True, timeout=20, check=False)


def test_runs_the_marked_line_in_the_repository(tmp_path: Path) -> None:
    run = run_ci(tmp_path, MARKED.format(line="pwd && printf '%s' \"a  b\""))
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines()[1:] == [str(tmp_path), "a  b"]


@pytest.mark.parametrize("line", ["exit 3", "false && true", "false | true; exit 3"])
def test_a_failing_line_fails(tmp_path: Path, line: str) -> None:
    assert run_ci(tmp_path, MARKED.format(line=line)).returncode in {1, 3}


@pytest.mark.parametrize("readme", ["# Title\n", "<!-- command: test -->\n", "<!-- command: test -->\n```sh\n```\n"])
def test_a_readme_without_the_command_is_an_error(tmp_path: Path, readme: str) -> None:
    run = run_ci(tmp_path, readme)
    assert run.returncode == 2
    assert "no fenced command" in run.stderr


def test_the_readme_states_one_test_command() -> None:
    lines = (REPOSITORY / "README.md").read_text(encoding="utf-8").splitlines()
    assert lines.count("<!-- command: test -->") == 1
    command = lines[lines.index("<!-- command: test -->") + 2]
    # A plain install would test a mixture of the checkout and the copy.
    assert "pip install -q -e '.[test]'" in command
    assert command.endswith("python -m pytest")
