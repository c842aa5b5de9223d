"""The ``shmcache`` command.

Owns the group: finding sub-commands, and how an error becomes a message, a remedy and an exit code.
Must never import what a sub-command needs: ``shmcache status`` starts without a compiler.
"""

from __future__ import annotations

import importlib
import logging
import os
import sys
from typing import Any

import click

from shmcache.errors import ShmCacheError
from shmcache_tools.exit_codes import ExitCode, exit_code_of
from shmcache_tools.options import WANTS_JSON
from shmcache_tools.output import echo_json, wrapped
from shmcache_tools.remedies import remedy_of

COMMANDS = (
    *("serve", "status", "top", "ls", "show", "clear", "evict", "warm", "metrics"),
    *("check", "explain-key", "verify", "gc", "doctor", "demo", "bench"),
)


class LazyGroup(click.Group):
    """Imports a sub-command's module when it is named, and turns errors into exit codes."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names, in the order in which one would learn them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The sub-command, or None when there is none of that name."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(
            f"shmcache_tools.commands.{cmd_name.replace('-', '_')}"
        ).command
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """Runs the sub-command; an error of shmcache ends it with that error's exit code."""
        try:
            return super().invoke(ctx)
        except ShmCacheError as error:
            _report(ctx, error)
            ctx.exit(exit_code_of(error))
        except BrokenPipeError:
            # The reader (head, less) has seen enough.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            ctx.exit(ExitCode.OK)


def _report(ctx: click.Context, error: ShmCacheError) -> None:
    click.echo(
        wrapped(f"error {error.code}: {error.message}").replace("error", click.style("error", fg="red"), 1), err=True
    )
    for name, value in error.details.items():
        click.echo(f"  {name}: {value}", err=True)
    click.echo(wrapped(f"remedy: {remedy_of(error)}", indent="  "), err=True)
    if ctx.meta.get(WANTS_JSON):
        echo_json({"error": {**error.to_plain(), "remedy": remedy_of(error)}})


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80})
@click.version_option(package_name="shmcache", prog_name="shmcache")
@click.option("-v", "--verbose", is_flag=True, help="Log to standard error.")
@click.pass_context
def main(ctx: click.Context, verbose: bool) -> None:
    """Look after the host's cache of compiled grammars.

    \b
    Exit codes:  0 ok        2 usage       4 no manager, no cache
                 1 failure   3 not found   5 incompatible or corrupt
                                           6 findings
    \b
    Example:     shmcache demo
    \b
    Completion:  eval "$(_SHMCACHE_COMPLETE=bash_source shmcache)"
                 (zsh_source and fish_source for those shells)
    """
    if os.environ.get("NO_COLOR"):
        ctx.color = False
    level = logging.INFO if verbose else logging.WARNING
    logging.basicConfig(stream=sys.stderr, level=level, format="%(asctime)s %(levelname)s %(name)s: %(message)s")


if __name__ == "__main__":
    main()
