"""How managers, workers and tools write their logs: lines for people, or one JSON object a line.

Owns the two formats. Must never decide what is logged. Everything goes through the standard library's loggers below
``shmcache``; what a record says beyond its message (key prefix, error code, durations in seconds, bytes) travels in its
``extra`` fields, which the JSON format writes out.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Any

FORMATS = ("text", "json")

KEY_DIGITS = 16
"""Hexadecimal digits of a key that are logged: enough for ``shmcache show``."""

_TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_TEXT_WITH_PROCESS = "%(asctime)s %(levelname)s %(name)s[%(process)d]: %(message)s"
_COMMON = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}
"""The attributes that every record has; others are what the message is about."""


class JsonFormatter(logging.Formatter):
    """One object a line: ``time`` (UTC, RFC 3339), ``level``, ``logger``, ``pid``, ``message``, then the extra fields.

    An exception is the text under ``exception``. A field that is no plain value is written as its text.
    """

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its end."""
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line: dict[str, Any] = {
            "time": f"{moment}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "pid": record.process,
            "message": record.getMessage(),
        }
        for name, value in vars(record).items():
            if name not in _COMMON and name not in line:
                line[name] = value
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


def formatter(form: str, *, with_process: bool = False) -> logging.Formatter:
    """The formatter of one of :data:`FORMATS`; ``with_process`` puts the process id into a line of text, too."""
    return JsonFormatter() if form == "json" else logging.Formatter(_TEXT_WITH_PROCESS if with_process else _TEXT)


def configure(level: str, form: str, *, with_process: bool = False) -> None:
    """Sends the root logger's records of ``level`` and above to standard error in that format.

    Does nothing where the root logger has a handler already, whose owner has decided.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter(form, with_process=with_process))
    logging.basicConfig(level=level.upper(), handlers=[handler])


def key_prefix(key: bytes) -> str:
    """The beginning of a key, as logs show it."""
    return key.hex()[:KEY_DIGITS]
