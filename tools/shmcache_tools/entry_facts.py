"""What can be said of an entry: from the index, from the file behind it, from readers' notes, and from the processes.

Owns the facts of ``ls`` and ``show`` and the search by the beginning of a key. Must never write, nor need a manager.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import click

from shmcache.errors import SegmentError, ShmCacheError
from shmcache.grammar.key import Source
from shmcache.image.attached_source import attached_source
from shmcache.memory.account import Entry, Share, share_of
from shmcache.memory.layout import Tier
from shmcache.memory.names import data_name, object_path
from shmcache.memory.segments import map_segment
from shmcache_tools.exit_codes import NotFoundError
from shmcache_tools.shared_stats import TIER_NAMES, SharedView

STATE_NAMES = {Share.CHARGED: "ready", Share.FILLING: "filling", Share.RETIRED: "retired"}
KINDS = ("json_schema", "ebnf", "regex", "structural_tag", "builtin_json", "rule", "vocabulary")


@dataclass(frozen=True, slots=True)
class Facts:
    """One entry. What is not known is None: ``kind`` of a grammar without a source, ``mapped_by`` unless looked for."""

    key: str
    tier: str
    kind: str | None
    state: str
    generation: int
    serial: int
    charged_bytes: int
    payload_bytes: int
    cost_us: int
    age_seconds: float | None
    idle_seconds: float | None
    hits: int | None
    mapped_by: list[int] | None


def facts_of(view: SharedView, entry: Entry, mapped: Mapping[str, list[int]] | None) -> Facts:
    """The facts of an entry; ``mapped`` is what :func:`shmcache_tools.mappers.mappers` found, None if nobody looked."""
    name = entry_name(view, entry)
    return Facts(
        key=entry.key.hex(),
        tier=TIER_NAMES[entry.tier],
        kind=_kind(view, entry),
        state=STATE_NAMES[share_of(entry, view.control.generation)],
        generation=entry.generation,
        serial=entry.serial,
        charged_bytes=entry.charged_bytes,
        payload_bytes=entry.payload_bytes,
        cost_us=entry.cost_us,
        age_seconds=_age_seconds(name),
        idle_seconds=view.idle_seconds(entry),
        hits=view.uses(entry),
        mapped_by=None if mapped is None else mapped.get(name, []),
    )


def entry_name(view: SharedView, entry: Entry) -> str:
    """The object name of an entry's segment."""
    return data_name(view.namespace.prefix, view.control.instance, entry.serial)


def source_of(view: SharedView, entry: Entry) -> Source | None:
    """What a grammar was compiled from; None when its segment is gone, or has no source with it, or is damaged."""
    try:
        data = attached_source(map_segment(entry_name(view, entry)).payload)
        return None if data is None else Source.from_bytes(data)
    except (ShmCacheError, OSError):
        return None


def _kind(view: SharedView, entry: Entry) -> str | None:
    if entry.tier is not Tier.GRAMMAR:
        return TIER_NAMES[entry.tier]
    source = source_of(view, entry)
    return None if source is None else source.kind


def _age_seconds(name: str) -> float | None:
    """How long ago the segment was written."""
    with contextlib.suppress(OSError, SegmentError):
        return max(0.0, time.time() - os.stat(object_path(name)).st_mtime)
    return None


# --- by key ----------------------------------------------------------------------------------------------------------


def check_prefix(_ctx: click.Context, _parameter: click.Parameter, value: str) -> str:
    """The beginning of a key, in lower case; for click: anything else is wrong usage."""
    if not set(value.lower()) <= set("0123456789abcdef"):
        raise click.BadParameter("a key has hexadecimal digits only")
    return value.lower()


def find_entries(view: SharedView, prefix: str, accepts: Callable[[Entry], bool] = lambda _: True) -> list[Entry]:
    """The entries whose key begins with ``prefix``, in slot order."""
    return [entry for entry in view.entries() if entry.key.hex().startswith(prefix) and accepts(entry)]


def find_one(view: SharedView, prefix: str) -> Entry:
    """The one valid entry whose key begins with ``prefix``.

    Raises :class:`NotFoundError` when there is none, click's usage error when there are several.
    """
    generation = view.control.generation
    found = find_entries(view, prefix, lambda entry: share_of(entry, generation) is Share.CHARGED)
    if not found:
        raise NotFoundError(f"no entry has a key that begins with {prefix or 'that'}")
    if len({entry.key for entry in found}) > 1:
        some = ", ".join(sorted(entry.key.hex()[:16] for entry in found)[:4])
        raise click.UsageError(f"{len(found)} entries have a key that begins with {prefix!r}: {some}, …")
    return found[0]
