"""Each stated case three ways: compiled for the cache, found there by another process, and after a restart."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.client.stated_cases import CASES, FIRST_TOKENS
from tests.conftest import REPOSITORY, stop_manager, stop_process

WAYS = ("cold", "hit", "restarted")


def run(name: str, directory: str) -> dict[str, Any]:
    """What a process of its own makes of all the cases."""
    command = [sys.executable, "-m", "tests.client.stated_cases", name, directory]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


@pytest.fixture(scope="module")
def answers() -> Iterator[dict[str, dict[str, Any]]]:
    from shmcache.memory.election import holder_pid
    from tests.memory.support import own_namespace

    with ExitStack() as stack:
        environment = stack.enter_context(pytest.MonkeyPatch.context())
        environment.setenv("SHMCACHE_WORKERS", "1")
        namespace = stack.enter_context(own_namespace())
        try:
            place = namespace.name, str(namespace.directory)
            found = {"cold": run(*place), "hit": run(*place)}
            stop_process(found["hit"]["stats"]["manager"]["pid"])
            found["restarted"] = run(*place)
            yield found
        finally:
            stop_manager(namespace.socket_path)
            if pid := holder_pid(namespace):
                stop_process(pid)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", CASES)
def test_a_case(name: str, way: str, answers: dict[str, dict[str, Any]]) -> None:
    case, outcome = CASES[name], answers[way]["outcomes"][name]
    assert outcome == answers["cold"]["outcomes"][name], "not as when it was compiled"
    if case.error:
        assert outcome["error"]["code"] == case.error
        return
    if case.feature and "error" in outcome:
        assert outcome["error"]["code"] == "UNSUPPORTED"
        assert outcome["error"]["details"]["feature"] == case.feature
        return
    assert "error" not in outcome, outcome
    assert outcome["generation"] == 1, "compiled in private"
    texts = [*case.accepted, *case.rejected]
    assert [text for text, is_accepted in zip(texts, outcome["accepted"], strict=True) if is_accepted] == [
        *case.accepted
    ]
    if name in FIRST_TOKENS:
        assert {bytes.fromhex(token) for token in outcome["first"]} == FIRST_TOKENS[name]


def test_what_was_cached_was_not_compiled_again(answers: dict[str, dict[str, Any]]) -> None:
    """The counters outlive the manager. Refusals do not, so these alone are worked out anew after a restart."""
    good = sum("error" not in outcome for outcome in answers["cold"]["outcomes"].values())
    refused = len(CASES) - good
    stats = [answers[way]["stats"] for way in WAYS]
    assert good > 15
    assert [one["compiles"]["succeeded"] for one in stats] == [good] * 3
    assert [one["compiles"]["started"] for one in stats] == [good + refused, good + refused, good + 2 * refused]
    assert [one["lookups"]["hit"] for one in stats] == [0, good, 2 * good]
    assert [one["entries"]["grammar"] for one in stats] == [good] * 3
    pids = [one["manager"]["pid"] for one in stats]
    assert pids[0] == pids[1] != pids[2]
