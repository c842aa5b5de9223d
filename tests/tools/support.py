"""The command line as tests run it: in this process, and as a process of its own."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from click.testing import CliRunner, Result

from shmcache.vocabulary.vocabulary import Vocabulary
from shmcache_tools.main import main

PROCESS_SECONDS_MAX = 60.0
BYTES = Vocabulary([bytes([byte]) for byte in range(256)] + [b"</s>"], stop_token_ids=[256])

STATS_SHAPE = {
    "generation": int,
    "epoch": int,
    "limit_bytes": int,
    "charged_bytes": {"grammar": int, "rule": int, "vocabulary": int, "total": int},
    "filling_bytes": int,
    "retired_bytes": int,
    "entries": {"grammar": int, "rule": int, "vocabulary": int},
    "lookups": {"hit": int, "miss": int, "coalesced": int},
    "local_hits": int,
    "compiles": {"started": int, "succeeded": int, "refused": int, "failed": int, "fenced": int},
    "compiles_in_flight": int,
    "waiters": int,
    "private_compiles": int,
    "compile_seconds": {"bounds": list, "counts": list, "sum": float},
    "refusals": {"SOURCE_ERROR": int, "UNSUPPORTED": int, "LIMIT": int, "MANAGER_UNAVAILABLE": int, "OTHER": int},
    "evictions": int,
    "evictions_by_reason": {"limit": int, "entries": int, "shm_full": int, "request": int},
    "workers": list,
    "clients": list,
    "clients_connected": int,
    "shm_free_bytes": int,
    "manager": {"pid": object, "state": str},
}
"""What ``stats()`` has, as types."""


def invoke(*arguments: str) -> Result:
    """Runs the command in this process."""
    return CliRunner().invoke(main, arguments)


def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs the command as a process of its own, with its output piped."""
    return subprocess.run(
        command(*arguments),
        capture_output=True,
        text=True,
        timeout=PROCESS_SECONDS_MAX,
        check=False,
        env={**os.environ, **variables},
    )


def command(*arguments: str) -> list[str]:
    """The arguments of a process that runs the command."""
    return [sys.executable, "-m", "shmcache_tools.main", *arguments]


def document(text: str) -> Any:
    """The one JSON document that ``text`` must be."""
    return json.loads(text)


def check_shape(value: Any, shape: Any, where: str = "stats") -> None:
    """Fails unless ``value`` has exactly the keys and types of ``shape``."""
    if isinstance(shape, dict):
        assert list(value) == list(shape), where
        for name, under in shape.items():
            check_shape(value[name], under, f"{where}.{name}")
    else:
        assert isinstance(value, shape), f"{where} is {value!r}"
        assert shape is not int or not isinstance(value, bool), where


def check_columns(text: str) -> None:
    """Fails when a line is longer than a terminal of 80 columns is wide."""
    assert [line for line in text.splitlines() if len(line) > 80] == []


@contextmanager
def serving(namespace: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """``shmcache serve`` as a process that has begun to say it is ready; killed at the end if it is still there."""
    process = subprocess.Popen(
        command("serve", "--namespace", namespace, "--workers", "1", *arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stderr is not None
        # Peeking takes nothing from what the test reads.
        if not select.select([process.stdout], [], [], PROCESS_SECONDS_MAX)[0] or process.poll() is not None:
            process.kill()
            raise AssertionError(process.stderr.read())
        yield process
    finally:
        process.kill()
        process.communicate()


def ended(process: subprocess.Popen[str], number: signal.Signals) -> tuple[str, str]:
    """All that a process printed, after it was sent a signal and has ended."""
    process.send_signal(number)
    return process.communicate(timeout=PROCESS_SECONDS_MAX)


@contextmanager
def serving_metrics(namespace: str) -> Iterator[str]:
    """``shmcache metrics --listen`` as a process; its address. It ends in order."""
    process = subprocess.Popen(
        command("metrics", "--namespace", namespace, "--listen", "0", "--json"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        text = ""
        while not text.endswith("}\n"):
            line = process.stdout.readline()
            assert line, process.communicate()[1]
            text += line
        yield str(json.loads(text)["address"])
        process.send_signal(signal.SIGTERM)
        assert process.communicate(timeout=PROCESS_SECONDS_MAX)[1] == ""
        assert process.returncode == 0
    finally:
        process.kill()
        process.communicate()
