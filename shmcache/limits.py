"""The bound on everything: constants, and the budget a single compile spends.

Owns numbers and the counting of them. Must never know what the counted things are used for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from shmcache.errors import LimitError

SOURCE_BYTES_MAX = 8 << 20
"""Largest source text accepted, in bytes of UTF-8."""

SCHEMA_DEPTH_MAX = 4_000
"""Deepest nesting of a JSON Schema document; deeper is a LimitError, never a RecursionError."""

FORMAT_DEPTH_MAX = 500
"""Deepest nesting of formats in a structural tag; their schemas may be as deep as any."""

EXPRESSION_DEPTH_MAX = 500
"""Deepest nesting of groups in a regex or an EBNF body."""

MESSAGE_BYTES_MAX = 64 << 10
"""Largest message on the socket; larger sources travel as descriptors."""

TOKEN_COUNT_MAX = 1 << 22
TOKEN_BYTES_MAX = 1 << 16
VOCABULARY_BYTES_MAX = 256 << 20
"""Largest sum of the lengths of all tokens of one vocabulary, in bytes; a trie has one node at most for each."""

STATES_MAX = 500_000
"""States one compile may create over all its constructions."""

EDGES_MAX = 4_000_000
"""Transitions one compile may create over all its constructions."""

TOKEN_SETS_MAX = 1 << 14
"""Different sets of whole tokens in one grammar."""

TOKEN_SET_IDS_MAX = 1 << 24
"""Ids in all these sets together, each set named by what is in it or by what is not, whichever is less."""

IMAGE_BYTES_MAX = 256 << 20

COMPILE_SECONDS_MAX = 30.0
"""Default deadline of one compile, in seconds."""

COMPILE_MEMORY_BYTES_MAX = 4 << 30
"""Default address-space growth allowed to one compile worker, in bytes."""

CONFIGURATION_ENTRIES_MAX = 4096
"""(state, stack) pairs one matcher configuration may hold; more is a LimitError of that request."""

STACK_NODES_MAX = 1 << 20
"""Different stacks one grammar may open in one process before its table is started afresh."""

REMEMBERED_STEPS_MAX = 200_000
"""Transitions of one grammar remembered in one process; past it they are forgotten and learnt anew."""


class Budget:
    """What one compile may spend: states, edges, seconds. Each ``spend_*`` raises :class:`LimitError` past its limit.

    ``clock`` returns monotonic seconds; tests pass their own. The deadline is looked at every 256 spendings, and when
    :meth:`check_time` is called.
    """

    __slots__ = ("_clock", "_deadline_seconds", "_ticks", "edges", "edges_max", "seconds_max", "states", "states_max")

    def __init__(
        self,
        *,
        states_max: int = STATES_MAX,
        edges_max: int = EDGES_MAX,
        seconds_max: float = COMPILE_SECONDS_MAX,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.states_max = states_max
        self.edges_max = edges_max
        self.seconds_max = seconds_max
        self.states = 0
        self.edges = 0
        self._clock = clock
        self._deadline_seconds = clock() + seconds_max
        self._ticks = 0

    def spend_states(self, count: int = 1) -> None:
        """Counts ``count`` new states."""
        self.states += count
        if self.states > self.states_max:
            raise LimitError(
                f"the grammar needs more than {self.states_max} automaton states", limit="states", value=self.states_max
            )
        self._tick()

    def spend_edges(self, count: int = 1) -> None:
        """Counts ``count`` new transitions."""
        self.edges += count
        if self.edges > self.edges_max:
            raise LimitError(
                f"the grammar needs more than {self.edges_max} automaton transitions",
                limit="edges",
                value=self.edges_max,
            )
        self._tick()

    def share(self, part: float) -> Budget:
        """A budget of ``part`` of the states and edges that are left of this one, with the same deadline.

        Not of the time: what a compile makes would depend on how fast it was.
        """
        budget = Budget(
            states_max=int((self.states_max - self.states) * part),
            edges_max=int((self.edges_max - self.edges) * part),
            seconds_max=self.seconds_max,
            clock=self._clock,
        )
        budget._deadline_seconds = self._deadline_seconds
        return budget

    def _tick(self) -> None:
        self._ticks += 1
        if self._ticks & 255 == 0:
            self.check_time()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Does not count the time of what is done inside: it is no part of this compile."""
        start = self._clock()
        try:
            yield
        finally:
            self._deadline_seconds += self._clock() - start

    def check_time(self) -> None:
        """Raises when the deadline has passed. For steps of a microsecond or more: it reads the clock."""
        if self._clock() > self._deadline_seconds:
            raise LimitError(
                f"compiling took longer than {self.seconds_max} s", limit="seconds", value=self.seconds_max
            )


COMPILE_SECONDS_CEILING = 3600.0
"""Longest deadline that a caller may ask for one compile, in seconds."""
