"""What must hold after any kill: for readers at once, and for everything after one restart."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from shmcache.errors import SegmentError
from shmcache.memory.check import check
from shmcache.memory.control import ControlReader, open_control_reader
from shmcache.memory.layout import SlotState, Tier
from shmcache.memory.names import Namespace, object_path
from shmcache.memory.reader import SharedCache
from shmcache.memory.segments import list_segments
from tests.crash.rig import Rig, key_of, payload_of, text_of

NAMES = (
    *("vocabulary", "new", "after", "stray"),
    *(f"{when}-{what}" for when in ("kept", "old") for what in ("a", "b", "c", "row", "late", "lost")),
    *(f"{when}-{what}{number}" for when in ("old", "new") for what in ("", "row-") for number in range(12)),
)
"""Everything that any scenario may have stored."""


@dataclass(frozen=True)
class Facts:
    """What was there before the kill; ``found`` are the entries that had to stay."""

    instance: int = 0
    generation: int = 0
    epoch: int = 0
    serial_last: int = 0
    found: frozenset[str] = frozenset()
    is_dissolved: bool = False

    @classmethod
    def of(cls, namespace: Namespace) -> Facts:
        try:
            control = open_control_reader(namespace)
        except FileNotFoundError:
            return cls()
        index = SharedCache(namespace, control).index
        found = frozenset(name for name in NAMES if name.startswith("kept") and index.look_up(key_of(name)))
        epoch, serial = control.manager().epoch, control.serial_last
        return cls(control.instance, control.generation, epoch, serial, found, control.is_dissolved)


def broken_for_readers(namespace: Namespace, facts: Facts) -> list[str]:
    """What is wrong for a reader who comes just now, with no manager there."""
    try:
        cache = SharedCache.open(namespace)
    except FileNotFoundError:
        return []
    except SegmentError as error:
        return [f"readers refuse the control segment: {error}"]
    broken = []
    hits = set()
    for name in NAMES:
        found = cache.open_entry(key_of(name))
        by_text = cache.open_text(text_of(key_of(name)))
        if by_text is not None and (found is None or by_text[0] != found[0]):
            broken.append(f"the text of {name} hits what its key does not")
        if found is None:
            continue
        entry, mapping = found
        hits.add(name)
        if bytes(mapping.payload) != payload_of(key_of(name)):
            broken.append(f"a hit of {name} has other bytes")
        if entry.tier is not Tier.VOCABULARY and entry.generation != cache.control.generation:
            broken.append(f"a hit of {name} is of generation {entry.generation}")
    return broken + _lost(cache.control, facts, hits)


def _lost(control: ControlReader, facts: Facts, hits: set[str]) -> list[str]:
    """As long as nobody cleared or removed the cache, what was to stay is hit."""
    if (control.instance, control.generation) != (facts.instance, facts.generation):
        return []
    return [f"{name} is lost" for name in sorted(facts.found - hits)]


def broken_by_restart(rig: Rig, left: Facts) -> list[str]:
    """What a restart changed of what was ``left`` when it began: it may neither clear a cache nor begin a new one."""
    control = rig.server.shelf.control
    if not left.instance or left.is_dissolved:
        return []
    now = (control.instance, control.generation)
    broken = [] if now == (left.instance, left.generation) else [f"the restart opened a new cache: {left}, now {now}"]
    if control.manager().epoch <= left.epoch:
        broken.append(f"epoch {control.manager().epoch} after {left.epoch}")
    return broken


def broken_at_rest(rig: Rig, facts: Facts, *, is_mapped: bool) -> list[str]:
    """What is wrong under a manager that has just started and has nothing to do."""
    namespace, shelf, core = rig.namespace, rig.server.shelf, rig.server.core
    control = open_control_reader(namespace)
    totals = control.totals()
    broken = [
        f"{finding.code} {finding.subject}: {finding.message}"
        for finding in check(control, SharedCache(namespace, control).index, namespace.prefix)
    ]
    broken += broken_for_readers(namespace, facts)
    core.check()
    account = core.entries.account()
    if asdict(account)["charged_bytes"] != totals.charged_bytes or account.retired_bytes != totals.retired_bytes:
        broken.append(f"the core's account is {account}, the header's {totals}")
    entries = shelf.index.entries()
    if any(entry.state is SlotState.FILLING for entry in entries):
        broken.append("a slot is still being filled")
    held_bytes = sum(object_path(name).stat().st_blocks * 512 for name in list_segments(namespace.prefix))
    if held_bytes != totals.all_bytes:
        broken.append(f"the files take {held_bytes} bytes, the account says {totals.all_bytes}")
    if not is_mapped and totals.retired_bytes:
        broken.append(f"{totals.retired_bytes} retired bytes that nobody maps")
    broken += _went_back(control, facts)
    return broken


def _went_back(control: ControlReader, facts: Facts) -> list[str]:
    """Numbers that must never decrease."""
    if control.instance != facts.instance:
        return []
    now = {
        "generation": (control.generation, facts.generation),
        "epoch": (control.manager().epoch, facts.epoch),
        "serial": (control.serial_last, facts.serial_last),
    }
    return [f"{what} is {is_now}, was {was}" for what, (is_now, was) in now.items() if is_now < was]
