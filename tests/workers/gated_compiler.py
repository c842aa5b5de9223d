"""A compiler for tests: does what its source says, and can be held at a gate.

The source is JSON: ``gate`` (a socket's path, where it reports and waits), ``payload`` (text of the image), ``rows``
(text by hexadecimal key), ``error`` (plain form), ``crash`` (raise MemoryError, RecursionError, ...), ``die`` (a signal
number), ``spin`` (run for ever, looking at the budget or not).
"""

from __future__ import annotations

import json
import os
import socket
from typing import Any

from shmcache.errors import error_from_plain
from shmcache.limits import Budget
from shmcache_workers.grammar_compile import Compiled

GUARD_SECONDS = 5.0


def source_of(**what: Any) -> bytes:
    """The source that makes the compiler do that."""
    return json.dumps(what).encode()


def compile_at_gate(source: bytes, vocabulary: Any, *, key: bytes, budget: Budget, rule_rows: Any) -> Compiled:
    """The image that the source asks for."""
    what = json.loads(source)
    taken: dict[str, str] = {}
    for row, payload in what.get("rows", {}).items():
        found = rule_rows.get(bytes.fromhex(row))
        taken[row] = "" if found is None else bytes(found).decode()
        if found is None:
            rule_rows.put(bytes.fromhex(row), payload.encode(), 100)
    if "gate" in what:
        _wait_at(what["gate"])
    if "die" in what:
        os.kill(os.getpid(), what["die"])
    if what.get("spin") == "deaf":
        while True:
            pass
    while what.get("spin"):
        budget.check_time()
    if "grow" in what:
        bytearray(what["grow"])
    if "crash" in what:
        raise {"MemoryError": MemoryError, "RecursionError": RecursionError, "KeyError": KeyError}[what["crash"]]()
    if "error" in what:
        error = what["error"]
        raise error_from_plain({**error, "message": error["message"] * what.get("repeat", 1)})
    size = what.get("size", 0)
    answer = {"payload": what.get("payload"), "rows": taken, "pid": os.getpid()}
    return Compiled(json.dumps(answer).encode().ljust(size))


def _wait_at(path: str) -> None:
    """Reports at the gate and waits until it opens, or at most for the guard's time."""
    with socket.socket(socket.AF_UNIX) as gate:
        gate.settimeout(GUARD_SECONDS)
        try:
            gate.connect(path)
            gate.recv(1)
        except OSError:
            return
