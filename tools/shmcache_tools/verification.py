"""The walk over everything that a cache has in shared memory.

Owns what is looked at: slots, totals, files, headers and checksums (``memory/check.py``), and on top of that what lies
in the payloads, which ``memory/`` must not know: images and vocabularies. Must never change anything.
"""

from __future__ import annotations

from dataclasses import dataclass

from shmcache.errors import SegmentError
from shmcache.image.first_mask import first_mask
from shmcache.image.image import open_image
from shmcache.manager.parts import split_vocabulary
from shmcache.matcher.bitmask import word_count
from shmcache.memory.account import Entry
from shmcache.memory.check import Finding, check
from shmcache.memory.layout import SlotState, Tier
from shmcache.memory.names import data_name
from shmcache.memory.segments import Mapping, map_segment
from shmcache.vocabulary.trie import Trie
from shmcache.vocabulary.vocabulary import Vocabulary
from shmcache_tools.shared_stats import SharedView


@dataclass(frozen=True, slots=True)
class Verification:
    """What was walked over, and what is wrong."""

    slots: int
    entries: int
    payload_bytes: int
    findings: tuple[Finding, ...]


def verify(view: SharedView) -> Verification:
    """Walks the cache; twice if there are findings, and only what both walks found is one.

    A manager may be changing things meanwhile, and what it changes just then looks wrong.
    """
    first = _walk(view)
    if not first.findings:
        return first
    again = set(_walk(view).findings)
    kept = tuple(finding for finding in first.findings if finding in again)
    return Verification(first.slots, first.entries, first.payload_bytes, kept)


def _walk(view: SharedView) -> Verification:
    findings = check(view.control, view.index, view.namespace.prefix)
    entries = view.entries()
    payload_bytes = 0
    for entry in entries:
        if entry.state is SlotState.READY:
            payload_bytes += entry.payload_bytes
            findings += _check_payload(view, entry)
    if view.recency is None:
        findings.append(Finding("RECENCY", view.namespace.recency_name, "missing, or not of this cache"))
    return Verification(view.index.slot_count, len(entries), payload_bytes, tuple(findings))


def _check_payload(view: SharedView, entry: Entry) -> list[Finding]:
    name = data_name(view.namespace.prefix, view.control.instance, entry.serial)
    try:
        mapping = map_segment(name)
    except (SegmentError, OSError):
        # The walk over the files has reported it.
        return []
    try:
        _open_payload(mapping, entry)
    except SegmentError as error:
        return [Finding("PAYLOAD_DAMAGED", name, f"no sound {entry.tier.name.lower()}: {error.message}")]
    return []


def _open_payload(mapping: Mapping, entry: Entry) -> None:
    """Rows of rules have no bounds of their own: a worker compares them with its automaton at every use."""
    if entry.tier is Tier.GRAMMAR:
        image = open_image(mapping.payload, expected_key=entry.key, check_bounds=True)
        first_mask(mapping.payload, word_count(image.width))
    elif entry.tier is Tier.VOCABULARY:
        data, trie = split_vocabulary(mapping.payload)
        vocabulary = Vocabulary.from_bytes(bytes(data))
        if vocabulary.fingerprint != entry.key:
            raise SegmentError("another vocabulary than its key says")
        vocabulary.attach_trie(Trie.from_buffer(trie))
