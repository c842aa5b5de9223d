"""Clients that are processes of their own, as tests talk to them."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from shmcache.memory.names import Namespace


class Process:
    """A process that runs :mod:`tests.client.programs`."""

    def __init__(self, namespace: Namespace) -> None:
        command = [sys.executable, "-m", "tests.client.programs", namespace.name, str(namespace.directory)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def tell(self, *command: str) -> None:
        """Sends a command, without waiting for what comes of it."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(command).encode() + b"\n")
        self.process.stdin.flush()

    def hear(self) -> dict[str, Any]:
        """The next answer; the process ends by itself if there is none, so this never hangs."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the process ended"
        answer: dict[str, Any] = json.loads(line)
        return answer

    def ask(self, *command: str) -> dict[str, Any]:
        """A command and its answer."""
        self.tell(*command)
        return self.hear()
