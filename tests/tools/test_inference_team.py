"""Processes that are told what to do: replies come from the right one, and an end is noticed."""

from __future__ import annotations

import os
import signal

import pytest

from shmcache_tools import inference_team
from shmcache_tools.inference_team import InferenceTeam, MemberError, open_commands


def test_an_unknown_command_ends_the_process_and_is_noticed(capfd: pytest.CaptureFixture[str]) -> None:
    with inference_team.inference_team(2) as team:
        team.tell(1, {"do": "dance"})
        with pytest.raises(MemberError, match="process 1 ended with status 1"):
            team.wait(1)
    assert "unknown command" in capfd.readouterr().err


def test_a_killed_process_is_noticed_and_the_others_end() -> None:
    with inference_team.inference_team(2) as team:
        os.kill(team.pids[0], signal.SIGKILL)
        with pytest.raises(MemberError, match="process 0"):
            team.wait(0)
        pids = team.pids
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_one_that_does_not_reply_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inference_team, "REPLY_SECONDS_MAX", 0.01)
    with inference_team.inference_team(1) as team, pytest.raises(MemberError, match="no inference process replied"):
        team.wait(0)


def test_each_process_has_a_seed_of_its_own() -> None:
    commands = open_commands(3, namespace="x", seed=10)
    assert [command["seed"] for command in commands] == [10, 11, 12]


def test_a_team_of_none() -> None:
    assert len(InferenceTeam(0)) == 0


@pytest.mark.tekken
def test_one_compiles_and_decodes_by_itself() -> None:
    ticks = []
    with inference_team.inference_team(1, lambda: ticks.append(1)) as team:
        team.all(open_commands(1, namespace=None, seed=3))
        asked = team.all([{"do": "ask", "names": ["20-release", "18-arithmetic"]}])[0]
        decoded = team.all([{"do": "decode", "rounds": 2}])[0]
    assert len(asked["seconds"]) == 2
    assert asked["bytes"] > 0
    assert set(decoded["texts"]) == {"20-release", "18-arithmetic"}
    assert decoded["problems"] == []
    assert len(ticks) == 2 + 4
