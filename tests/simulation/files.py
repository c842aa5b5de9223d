"""Shared memory as the simulation has it: files with names, opens of them, and who holds which.

Owns what the kernel would: names, descriptors, and the lease probe, which counts opens. Must never know what the
manager, workers and clients do with them. Descriptors are numbers far above any real one, so that a mistake cannot
close something of the test's own process.
"""

from __future__ import annotations

import contextlib
import errno
from dataclasses import dataclass, field
from typing import Any

from shmcache.errors import SegmentError
from shmcache.memory.names import parse_data_name
from shmcache.memory.segments import SegmentHeader

MANAGER = "manager"
FIRST_DESCRIPTOR = 1 << 30


@dataclass(eq=False)
class File:
    """A segment. ``made_in``: the generation of the lease under which its content was really computed."""

    header: SegmentHeader
    charged_bytes: int
    made_in: int


@dataclass(eq=False)
class Opening:
    """One open of a file: its copies, wherever they were sent, are one user."""

    file: File | None
    references: int = 1


@dataclass(frozen=True)
class FakeMapping:
    """What a client has of a mapped segment."""

    header: SegmentHeader
    payload: File
    size_bytes: int


@dataclass
class Files:
    """The file system and all descriptor tables. ``owner``: whose descriptor it is."""

    leases_work: bool = True
    names: dict[str, File] = field(default_factory=dict)
    table: dict[int, tuple[Opening, str]] = field(default_factory=dict)
    is_full: bool = False
    _descriptor_last: int = FIRST_DESCRIPTOR

    # --- descriptors -------------------------------------------------------------------------------------------------

    def open_for(self, owner: str, name: str) -> int:
        """A descriptor from an open of its own."""
        if name not in self.names:
            raise FileNotFoundError(errno.ENOENT, "gone", name)
        return self._enter(Opening(self.names[name]), owner)

    def open_anonymous(self, owner: str, file: File | None) -> int:
        """A descriptor of memory without a name."""
        return self._enter(Opening(file), owner)

    def send(self, descriptor: int, owner: str) -> int:
        """A copy of a descriptor for somebody else."""
        opening, _ = self.table[descriptor]
        opening.references += 1
        return self._enter(opening, owner)

    def take(self, descriptor: int, owner: str) -> int:
        """The same descriptor, received: it changes hands."""
        opening, _ = self.table.pop(descriptor)
        return self._enter(opening, owner)

    def file_of(self, descriptor: int) -> File:
        """What a descriptor is of."""
        file = self.table[descriptor][0].file
        assert file is not None
        return file

    def close(self, descriptor: int) -> None:
        """Closing what is not open is a mistake of the caller."""
        assert descriptor in self.table, "closed twice"
        self.table.pop(descriptor)[0].references -= 1

    def close_all(self, descriptors: Any) -> None:
        for descriptor in descriptors:
            self.close(descriptor)

    def close_owner(self, owner: str) -> None:
        """A process ended."""
        for descriptor in [number for number, (_, of) in self.table.items() if of == owner]:
            self.close(descriptor)

    def owned(self, owner: str) -> list[int]:
        return [number for number, (_, of) in self.table.items() if of == owner]

    def users(self, file: File) -> int:
        """How many opens of a file there are."""
        return len({id(opening) for opening, _ in self.table.values() if opening.file is file})

    def _enter(self, opening: Opening, owner: str) -> int:
        self._descriptor_last += 1
        self.table[self._descriptor_last] = opening, owner
        return self._descriptor_last

    # --- what replaces the functions of memory/ in the manager -------------------------------------------------------

    def open_segment(self, name: str) -> int:
        return self.open_for(MANAGER, name)

    def read_header(self, source: str | int) -> SegmentHeader:
        if isinstance(source, str):
            if source not in self.names:
                raise FileNotFoundError(errno.ENOENT, "gone", source)
            return self.names[source].header
        return self.file_of(source).header

    def charged_bytes(self, descriptor: int) -> int:
        return self.file_of(descriptor).charged_bytes

    def is_unused(self, descriptor: int) -> bool:
        return self.users(self.file_of(descriptor)) == 1

    def unlink_object(self, name: str) -> bool:
        return self.names.pop(name, None) is not None

    def unlink_segment(self, name: str) -> bool:
        published = self.unlink_object(name)
        return self.unlink_object(name + ".new") or published

    def list_segments(self, prefix: str) -> list[str]:
        return [name for name in self.names if name.startswith(prefix + "-")]

    # --- what a worker does ------------------------------------------------------------------------------------------

    def build(self, name: str, file: File) -> None:
        """A file under its private name."""
        if self.is_full:
            raise MemoryError
        if name + ".new" in self.names:
            raise SegmentError("exists already")
        self.names[name + ".new"] = file

    def publish(self, name: str) -> None:
        """Gives a built file its name. Whoever unlinked the private name meanwhile has ended this."""
        with contextlib.suppress(KeyError):
            file = self.names.pop(name + ".new")
            assert name not in self.names, "a name came back"
            self.names[name] = file

    def serials(self) -> dict[int, list[str]]:
        """Names by serial."""
        found: dict[int, list[str]] = {}
        for name in self.names:
            parsed = parse_data_name(name)
            assert parsed is not None
            found.setdefault(parsed.serial, []).append(name)
        return found
