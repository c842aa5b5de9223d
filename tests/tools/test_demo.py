"""The demonstration from end to end, and what it leaves when it is interrupted: nothing."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from shmcache_tools import demo_run
from shmcache_tools.demo_run import DemoError, Moment
from tests.tools.support import check_columns, command

SECONDS_MAX = 240.0
"""A guard, not a promise: about half a minute on two idle cores."""

pytestmark = [pytest.mark.tekken, pytest.mark.timeout(SECONDS_MAX + 30)]


def objects_left() -> set[str]:
    """Everything of ours in shared memory and in the runtime directory of this run."""
    folders = (os.environ["SHMCACHE_SHM_DIRECTORY"], os.environ["SHMCACHE_RUNTIME_DIR"])
    return {path.name for folder in folders for path in Path(folder).glob("shmc-*")}


def test_it_shows_what_it_promises() -> None:
    before = objects_left()
    result = subprocess.run(
        command("demo", "--samples"), capture_output=True, text=True, timeout=SECONDS_MAX, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
    text = result.stdout
    check_columns(text)
    assert "compiles    20, not 80\n" in text
    assert "samples     80 decoded" in text
    for number in range(4):
        assert f"worker {number}, pid" in text
    for word in ("own compile", "host hit", "local hit", "private copies", "growth since idle"):
        assert word in text
    rows = {cells[0]: cells[1:] for cells in (re.split(r"\s{2,}", line) for line in text.splitlines())}
    before_clear, during = rows["before"], rows["cleared, compile in flight"]
    later, after, at_rest = (
        rows[name] for name in ("another worker asks anew", "the first caller is served", "the workers have ended")
    )
    # Generation, size, retired, in flight.
    assert before_clear[0] == "1"
    assert during[:2] == ["2", "0 B"]
    assert [int(during[3]), int(later[3]), int(after[3])] == [1, 1, 0]
    assert later[1] == after[1] == at_rest[1] != "0 B"
    assert at_rest[2] == "0 B"
    assert "Nothing of this demo is left in" in text
    assert objects_left() == before
    for source in ("01-weather-call", "19-query", "20-release"):
        assert source in text


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_one_leaves_nothing(number: signal.Signals) -> None:
    before = objects_left()
    # A suite that a shell runs in the background is started with Ctrl-C ignored, and so would this be.
    with subprocess.Popen(
        command("demo"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            while line and "workers with the Tekken vocabulary" not in line:
                line = process.stdout.readline()
            assert line, process.stderr.read() if process.stderr else ""
            assert objects_left() > before
            process.send_signal(number)
            output, log = process.communicate(timeout=60.0)
        finally:
            process.kill()
    assert process.returncode == 1
    assert "Aborted" in log
    assert "Traceback" not in log
    assert "Nothing of this demo" not in output
    assert objects_left() == before


def moment(name: str, *, grammars: int, size_bytes: int, fenced: int) -> Moment:
    charged = {"grammar": size_bytes, "rule": 0}
    stats = {"charged_bytes": charged, "entries": {"grammar": grammars}, "compiles": {"fenced": fenced}}
    return Moment(name, stats)


@pytest.mark.parametrize(
    ("during", "later", "after", "generation", "message"),
    [
        (10, 4, 4, 1, "right after the clear"),
        (0, 0, 0, 1, "one grammar was asked for"),
        (0, 4, 9, 1, "moved the account"),
        (0, 4, 4, 2, "not fenced"),
    ],
)
def test_an_account_that_is_wrong_is_noticed(
    during: int, later: int, after: int, generation: int, message: str
) -> None:
    with pytest.raises(DemoError, match=message):
        demo_run._check_clear(
            moment("before", grammars=20, size_bytes=100, fenced=0),
            moment("during", grammars=0, size_bytes=during, fenced=0),
            moment("later", grammars=1, size_bytes=later, fenced=0),
            moment("after", grammars=1, size_bytes=after, fenced=1),
            2,
            generation,
        )


def test_an_account_that_is_right_passes() -> None:
    demo_run._check_clear(
        moment("before", grammars=20, size_bytes=100, fenced=0),
        moment("during", grammars=0, size_bytes=0, fenced=0),
        moment("later", grammars=1, size_bytes=4, fenced=0),
        moment("after", grammars=1, size_bytes=4, fenced=1),
        2,
        1,
    )
