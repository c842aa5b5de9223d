"""Options that several sub-commands have.

Owns their names, help texts and what they accept. Must never know what a command does with them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from shmcache import settings

Function = TypeVar("Function", bound=Callable[..., Any])

WANTS_JSON = "shmcache_tools.json"
"""Where click's context notes that a JSON document is wanted, for errors too."""


def json_option(function: Function) -> Function:
    """Adds ``--json``, which gives the command the argument ``as_json``."""

    def remember(ctx: click.Context, _: click.Parameter, value: bool) -> bool:
        ctx.meta[WANTS_JSON] = value
        return value

    return click.option(
        "--json",
        "as_json",
        is_flag=True,
        is_eager=True,
        callback=remember,
        help="Print one JSON document instead of text.",
    )(function)


def namespace_option(function: Function) -> Function:
    """Adds ``--namespace``, which gives the command the argument ``namespace`` (None: from the settings)."""
    return click.option(
        "-n",
        "--namespace",
        metavar="NAME",
        help="Which cache; each name is a cache of its own.  [default: $SHMCACHE_NAMESPACE, else 'default']",
    )(function)


def bytes_option(*names: str, help: str) -> Callable[[Function], Function]:  # noqa: A002  (click's own name)
    """Adds an option that takes a number of bytes, such as ``512M``; without it the argument is None."""

    def parse(_ctx: click.Context, _parameter: click.Parameter, value: str | None) -> int | None:
        try:
            return None if value is None else settings.parse_bytes(value)
        except ValueError as error:
            raise click.BadParameter(
                f"{value!r} is not a number of bytes such as 512M, 2GiB, or -1 for no limit"
            ) from error

    def add(function: Function) -> Function:
        return click.option(*names, callback=parse, metavar="BYTES", help=help)(function)

    return add
