"""A terminal of 80×24 with the command on it, as somebody sits before it."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
from typing import Any

from tests.tools.support import command

GUARD_SECONDS = 20.0


class Terminal:
    """A terminal of 80×24 with a process on it."""

    def __init__(self, *arguments: str, **variables: str) -> None:
        self.ours, self._theirs = pty.openpty()
        fcntl.ioctl(self._theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.before = termios.tcgetattr(self._theirs)
        self.process = subprocess.Popen(
            command(*arguments),
            stdin=self._theirs,
            stdout=self._theirs,
            stderr=self._theirs,
            env={**os.environ, "TERM": "xterm", **variables},
            start_new_session=True,
        )
        self.text = ""

    def until(self, wanted: str) -> str:
        """Reads until that is shown."""
        while wanted not in self.text:
            assert select.select([self.ours], [], [], GUARD_SECONDS)[0], self.text
            self.text += os.read(self.ours, 65536).decode()
        return self.text

    def end(self) -> tuple[int, list[Any]]:
        """The exit code, and how the terminal is set afterwards."""
        code = self.process.wait(GUARD_SECONDS)
        return code, termios.tcgetattr(self._theirs)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.ours)
        os.close(self._theirs)

    def everything(self) -> str:
        """All that is shown until the process has ended."""
        while True:
            readable, _, _ = select.select([self.ours], [], [], 0 if self.process.poll() is not None else 0.05)
            if readable:
                self.text += os.read(self.ours, 65536).decode()
            elif self.process.poll() is not None:
                return self.text


def plain(text: str) -> str:
    """The text without colours and moves, with the line ends that programs write."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text).replace("\r\n", "\n")
