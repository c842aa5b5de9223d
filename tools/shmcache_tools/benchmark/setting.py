"""What all scenarios share: the schemas, the engines made ready once, the scale, and whom to tell how far it is.

Owns these values. Must never time anything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from shmcache.vocabulary.vocabulary import Vocabulary
from shmcache_tools.benchmark.corpus import Case
from shmcache_tools.benchmark.engines import ENGINES, Engine


@dataclass(frozen=True, slots=True)
class Scale:
    """How much of everything is done."""

    pair_seconds_max: float
    """One engine on one schema, steps included."""
    batch_sizes: tuple[int, ...]
    batch_rounds: int
    hit_processes: int
    local_repeats: int
    fleet_processes: tuple[int, ...]
    fleet_seconds_max: float
    """No process of a fleet begins another schema after so long."""
    growth_points: int
    """Of each series, from its small end; the vocabulary counts as a series."""
    clear_entries: tuple[int, ...]
    clear_rounds: int
    read_entries: int
    """Of the clear that a reader looks at."""
    start_rounds: int
    has_cold_kernels: bool


FULL = Scale(
    pair_seconds_max=20.0,
    batch_sizes=(64, 256),
    batch_rounds=100,
    hit_processes=8,
    local_repeats=200,
    fleet_processes=(1, 2, 4, 8),
    fleet_seconds_max=240.0,
    growth_points=4,
    clear_entries=(10, 100, 1_000, 10_000),  # a namespace holds 12,288
    clear_rounds=5,
    read_entries=1_000,
    start_rounds=5,
    has_cold_kernels=True,
)
QUICK = Scale(
    pair_seconds_max=5.0,
    batch_sizes=(64,),
    batch_rounds=5,
    hit_processes=1,
    local_repeats=20,
    fleet_processes=(1, 2),
    fleet_seconds_max=60.0,
    growth_points=2,
    clear_entries=(10, 50),
    clear_rounds=2,
    read_entries=50,
    start_rounds=1,
    has_cold_kernels=False,
)


@dataclass
class Setting:
    """One run of the benchmark. ``tell`` gets a line before each thing that may take long."""

    cases: Sequence[Case]
    engine_names: Sequence[str]
    vocabulary: Vocabulary
    scale: Scale
    seed: int
    tell: Callable[[str], None]
    _engines: dict[str, Engine] = field(default_factory=dict)

    def engine(self, name: str) -> Engine:
        """The engine of this name, made ready at its first use."""
        if name not in self._engines:
            self.tell(f"loading {name}")
            self._engines[name] = ENGINES[name].load(self.vocabulary)
        return self._engines[name]

    @property
    def engines(self) -> list[Engine]:
        """Those that were asked for."""
        return [self.engine(name) for name in self.engine_names]

    @cached_property
    def peers(self) -> list[Engine]:
        """Those that are not ours."""
        return [self.engine(name) for name in self.engine_names if name != "shmcache"]
