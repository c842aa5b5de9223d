"""The manager's policy: every number and table that decides, in one place.

Owns the settings of the pure core and what may be derived from them alone. Must never know state or time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from shmcache.limits import (
    COMPILE_MEMORY_BYTES_MAX,
    COMPILE_SECONDS_CEILING,
    COMPILE_SECONDS_MAX,
    EDGES_MAX,
    STATES_MAX,
)
from shmcache.memory.layout import ENTRIES_MAX, HOMES_PER_ENTRY, Tier

UNLIMITED = -1

CHARGED_TIERS = (Tier.GRAMMAR, Tier.RULE)
"""The tiers under the limit and the generation fence. Vocabularies are counted apart and outlive a clear."""

REMEMBERED_LIMITS = frozenset({"states", "edges", "depth", "source_bytes", "image_bytes", "tokens", "token_bytes"})
"""Limits whose excess depends on nothing but the source and the limit: refusals that may be remembered."""

REMEMBERED_CODES = frozenset({"SOURCE_ERROR", "UNSUPPORTED"})


class KillReason(Enum):
    """Why the manager kills a worker. None of them counts as a crash of the worker."""

    DEADLINE = "deadline"
    NOT_CANCELLING = "not cancelling"
    NOT_STARTING = "not starting"
    PROTOCOL = "protocol"


@dataclass(frozen=True, slots=True)
class Limits:
    """What one compile may spend. In a request 0 means the default."""

    seconds_max: float = 0.0
    states_max: int = 0
    edges_max: int = 0
    memory_bytes_max: int = 0

    def covers(self, other: Limits) -> bool:
        """Whether a compile under these limits may spend at least as much as one under ``other``."""
        return (
            self.seconds_max >= other.seconds_max
            and self.states_max >= other.states_max
            and self.edges_max >= other.edges_max
            and self.memory_bytes_max >= other.memory_bytes_max
        )


@dataclass(frozen=True, slots=True)
class Policy:
    """Settings of one manager. Seconds and bytes; counts where no unit is named."""

    limit_bytes: int = UNLIMITED
    workers_max: int = 2
    workers_ready: int = 1
    """So many are started with the first compile, the others when they are needed."""
    hire_after_seconds: float = 0.5
    """So long a compile waits for busy workers before there is one more: about what starting one costs."""
    entries_max: int = ENTRIES_MAX
    """Entries of all tiers; beyond it one of the least worth is evicted, also in unlimited mode."""
    vocabularies_max: int = 64
    waiting_per_client_max: int = 64
    """Compiles that one client may wait for at once."""
    waiting_max: int = 16_384
    refusals_max: int = 1024
    attempts_max: int = 2
    """Workers that may die over one compile before it is given up."""
    default_limits: Limits = Limits(COMPILE_SECONDS_MAX, STATES_MAX, EDGES_MAX, COMPILE_MEMORY_BYTES_MAX)
    ceiling_limits: Limits = Limits(
        COMPILE_SECONDS_CEILING, 8 * STATES_MAX, 8 * EDGES_MAX, 8 * COMPILE_MEMORY_BYTES_MAX
    )
    grace_seconds: float = 2.0
    """A worker that is past its deadline, or told to cancel, by more than this is killed."""
    finish_seconds: float = 20.0
    """Time a worker has for storing rows after it delivered its image."""
    start_seconds: float = 60.0
    warm_up_seconds: float = 900.0
    """Compiling the kernels on a fresh host, another worker's turn included."""
    back_off_seconds: float = 0.1
    back_off_seconds_max: float = 10.0
    crashes_max: int = 6
    """Workers that may die one after the other before waiting callers are told to compile privately."""
    retire_batch: int = 2
    """Entries of older generations that one Tick retires."""
    allocation_rounds_max: int = 6

    def limit_of(self, tier: Tier) -> int:
        """Bytes that a tier may take, or :data:`UNLIMITED`: two thirds for grammars, one third for rules."""
        if self.limit_bytes == UNLIMITED or tier is Tier.VOCABULARY:
            return UNLIMITED
        rule_bytes = self.limit_bytes // 3
        return rule_bytes if tier is Tier.RULE else self.limit_bytes - rule_bytes

    def fitting(self, home_count: int) -> Policy:
        """The same, with no more entries than an index of so many homes is made for."""
        entries_max = max(1, min(self.entries_max, home_count // HOMES_PER_ENTRY))
        return replace(self, entries_max=entries_max)

    def settle(self, asked: Limits) -> Limits:
        """The limits of a compile: what was asked, its zeroes replaced by the defaults, cut to the ceiling."""
        default, ceiling = self.default_limits, self.ceiling_limits
        return Limits(
            min(asked.seconds_max or default.seconds_max, ceiling.seconds_max),
            min(asked.states_max or default.states_max, ceiling.states_max),
            min(asked.edges_max or default.edges_max, ceiling.edges_max),
            min(asked.memory_bytes_max or default.memory_bytes_max, ceiling.memory_bytes_max),
        )

    def back_off(self, crashes: int) -> float:
        """Seconds to wait before starting a worker after that many crashes in a row."""
        if crashes == 0:
            return 0.0
        doublings = min(crashes - 1, 16)
        return min(self.back_off_seconds * float(1 << doublings), self.back_off_seconds_max)
