"""Starting: the import, the first mask of a new process, the manager, its first worker.

Owns the small programs that are run for it, each in a new interpreter. Must never print.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from time import perf_counter
from typing import Any

from shmcache_tools.benchmark.figures import Goal, Latencies, Section, percentile
from shmcache_tools.benchmark.fresh import CrashedError, OverdueError, in_fork
from shmcache_tools.benchmark.setting import Setting
from shmcache_tools.own_manager import own_manager

SECONDS_MAX = 180.0
IMPORT_US_MAX, FIRST_MASK_US_MAX, COLD_KERNELS_US_MAX = 60e3, 400e3, 20e6

SCHEMA = '{"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}'

_TIMED = """
from time import perf_counter
started = perf_counter()
{statements}
print((perf_counter() - started) * 1e6)
"""
_IMPORT = "import shmcache"
_FIRST_MASK = """
import shmcache
vocabulary = shmcache.Vocabulary.from_mistral()
grammar = {call}
bitmask = shmcache.allocate_token_bitmask(1, vocabulary.width)
shmcache.GrammarMatcher(grammar).fill_next_token_bitmask(bitmask)
"""
_COMPILED = f"shmcache.compile_json_schema({SCHEMA!r}, vocabulary, strict_mode=False)"


class StartError(Exception):
    """A new interpreter failed."""


def start_section(setting: Setting) -> Section:
    """Every start, so many times."""
    found: dict[str, list[float]] = {
        "import": [],
        "interpreter and import": [],
        "first mask, compiled": [],
        "first mask, host hit": [],
        "manager": [],
        "worker and first grammar": [],
    }
    _timed(_FIRST_MASK.format(call=_COMPILED))  # kernels and files are warm then
    for number in range(setting.scale.start_rounds):
        setting.tell(f"start-up: {number + 1}/{setting.scale.start_rounds}")
        inside, whole = _timed(_IMPORT)
        found["import"].append(inside)
        found["interpreter and import"].append(whole)
        found["first mask, compiled"].append(_timed(_FIRST_MASK.format(call=_COMPILED))[0])
        for name, value in _manager_starts(setting).items():
            found[name].append(value)
    if setting.scale.has_cold_kernels:
        setting.tell("start-up: compiling all kernels")
        with tempfile.TemporaryDirectory(prefix="shmcache-bench-") as folder:
            found["first mask, no kernels"] = [
                _timed(_FIRST_MASK.format(call=_COMPILED), {"NUMBA_CACHE_DIR": folder})[0]
            ]
    goals = [
        Goal("import shmcache, p50", percentile(found["import"], 50), IMPORT_US_MAX, "µs"),
        Goal(
            "first mask of a new process, p50", percentile(found["first mask, compiled"], 50), FIRST_MASK_US_MAX, "µs"
        ),
    ]
    if setting.scale.has_cold_kernels:
        reached = found["first mask, no kernels"][0]
        goals.append(Goal("first mask, empty kernel cache", reached, COLD_KERNELS_US_MAX, "µs"))
    notes = ["first mask: import, vocabulary, grammar and mask in a new interpreter; host hit: connecting, too."]
    return Section("start-up", [Latencies("start-up", found)], goals, notes)


def _manager_starts(setting: Setting) -> dict[str, float]:
    started = perf_counter()
    with own_manager("bench", workers=1) as namespace:
        manager = perf_counter()
        try:
            worker = in_fork(lambda: _worker_start(setting, namespace.name), seconds_max=SECONDS_MAX)
        except (OverdueError, CrashedError) as error:
            raise StartError(f"no worker came: {error or 'it took too long'}") from error
        if isinstance(worker, dict):
            raise StartError(worker["error"])
        connected = f"shmcache.connect(vocabulary, {namespace.name!r}, autostart=False)"
        call = f"{connected}.compile_json_schema({SCHEMA!r}, strict_mode=False)"
        _timed(_FIRST_MASK.format(call=call))
        hit, _ = _timed(_FIRST_MASK.format(call=call))
    return {"manager": (manager - started) * 1e6, "worker and first grammar": worker, "first mask, host hit": hit}


def _worker_start(setting: Setting, namespace: str) -> float:
    """Microseconds from the manager's first client to its first grammar: that client is what workers start for."""
    from shmcache.client import connect

    started = perf_counter()
    with connect(setting.vocabulary, namespace, autostart=False) as cache:
        cache.compile_json_schema(SCHEMA, strict_mode=False)
    return (perf_counter() - started) * 1e6


def _timed(statements: str, variables: dict[str, str] | None = None) -> tuple[float, float]:
    """Microseconds that the statements took in a new interpreter, and all of it."""
    command: list[Any] = [sys.executable, "-P", "-c", _TIMED.format(statements=statements)]
    started = perf_counter()
    try:
        run = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
            check=False,
            env={**os.environ, **(variables or {})},
        )
    except subprocess.TimeoutExpired as error:
        raise StartError(f"a new interpreter took longer than {SECONDS_MAX:.0f} s") from error
    if run.returncode:
        raise StartError(run.stderr[-500:])
    return float(run.stdout), (perf_counter() - started) * 1e6
