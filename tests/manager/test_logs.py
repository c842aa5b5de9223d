"""The log of a manager and its workers: lines for people, or objects that a program reads."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from typing import Any

import pytest

from shmcache.manager import logs


def record(message: str = "hello %s", *arguments: Any, **fields: Any) -> logging.LogRecord:
    made = logging.getLogger("shmcache.test").makeRecord(
        "shmcache.test", logging.WARNING, "file", 1, message, arguments, None, extra=fields
    )
    assert made.process
    return made


def test_one_object_a_line_with_the_fields_of_the_record() -> None:
    made = record("compile of %s\nended", "abc", key="abc", seconds=0.5, code="LIMIT")
    made.created, made.msecs = 1_700_000_000.25, 250.0
    line = logs.formatter("json").format(made)
    assert "\n" not in line
    assert json.loads(line) == {
        "time": "2023-11-14T22:13:20.250Z",
        "level": "warning",
        "logger": "shmcache.test",
        "pid": made.process,
        "message": "compile of abc\nended",
        "key": "abc",
        "seconds": 0.5,
        "code": "LIMIT",
    }


def test_what_is_no_plain_value_is_text_and_an_exception_is_told() -> None:
    try:
        raise KeyError("x")
    except KeyError:
        made = logging.getLogger("x").makeRecord("x", 40, "f", 1, "failed", (), sys.exc_info(), extra={"path": object})
    line = json.loads(logs.formatter("json").format(made))
    assert line["path"] == repr(object)
    assert "KeyError: 'x'" in line["exception"]


def test_lines_for_people() -> None:
    assert logs.formatter("text").format(record("hello %s", "you")).endswith("WARNING shmcache.test: hello you")
    assert f"[{record().process}]: hi" in logs.formatter("text", with_process=True).format(record("hi"))


@pytest.mark.parametrize("form", logs.FORMATS)
def test_it_is_written_to_standard_error(form: str) -> None:
    program = (
        "import logging; from shmcache.manager import logs; "
        f"logs.configure('info', {form!r}); logging.getLogger('shmcache.x').info('said', extra={{'key': 'ab'}}); "
        "logging.getLogger('shmcache.x').debug('not said')"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert run.stdout == ""
    (line,) = run.stderr.splitlines()
    if form == "json":
        assert json.loads(line)["key"] == "ab"
    else:
        assert line.endswith("INFO shmcache.x: said")


def test_a_client_is_quiet_by_default() -> None:
    program = "import logging, shmcache.client; logging.getLogger('shmcache').warning('damaged')"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert (run.stdout, run.stderr) == ("", "")
