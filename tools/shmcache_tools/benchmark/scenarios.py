"""The scenarios by name, in the order in which they are run.

Owns the names of the command line. Must never print.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from shmcache_tools.benchmark.figures import Section
from shmcache_tools.benchmark.setting import Setting


@dataclass(frozen=True, slots=True)
class Scenario:
    """Sections that one run yields together; ``names`` are theirs."""

    names: tuple[str, ...]
    run: Callable[[Setting, Sequence[str]], list[Section]]


class ScenarioError(Exception):
    """A scenario could not be run; the others can."""


def _cold_and_step(setting: Setting, names: Sequence[str]) -> list[Section]:
    from shmcache_tools.benchmark.comparing import cold_section, compare, step_section

    results = compare(setting.engines, setting.cases, setting.tell, seconds_max=setting.scale.pair_seconds_max)
    sections = {"cold": cold_section, "step": step_section}
    return [make(setting, results) for name, make in sections.items() if name in names]


def _batch(setting: Setting, _names: Sequence[str]) -> list[Section]:
    from shmcache_tools.benchmark.batches import batch_section

    return [batch_section(setting)]


def _hits(setting: Setting, names: Sequence[str]) -> list[Section]:
    from shmcache_tools.benchmark.hits import HitsError, hit_sections

    try:
        return [section for section in hit_sections(setting) if section.name in names]
    except HitsError as error:
        raise ScenarioError(str(error)) from error


def _fleet(setting: Setting, _names: Sequence[str]) -> list[Section]:
    from shmcache_tools.benchmark.fleet import fleet_section

    return [fleet_section(setting)]


def _growth(setting: Setting, _names: Sequence[str]) -> list[Section]:
    from shmcache_tools.benchmark.growth import growth_section

    return [growth_section(setting)]


def _clear(setting: Setting, _names: Sequence[str]) -> list[Section]:
    from shmcache_tools.benchmark.clears import ClearError, clear_section

    try:
        return [clear_section(setting)]
    except ClearError as error:
        raise ScenarioError(str(error)) from error


def _start_up(setting: Setting, _names: Sequence[str]) -> list[Section]:
    from shmcache_tools.benchmark.start_up import StartError, start_section

    try:
        return [start_section(setting)]
    except StartError as error:
        raise ScenarioError(str(error)) from error


SCENARIOS = (
    Scenario(("cold", "step"), _cold_and_step),
    Scenario(("batch",), _batch),
    Scenario(("host-hit", "local-hit"), _hits),
    Scenario(("fleet",), _fleet),
    Scenario(("growth",), _growth),
    Scenario(("clear",), _clear),
    Scenario(("start-up",), _start_up),
)
NAMES = tuple(name for scenario in SCENARIOS for name in scenario.names)


def run(setting: Setting, names: Sequence[str]) -> Iterator[Section]:
    """The sections of these names. One whose scenario fails has a note that says so, and nothing else."""
    for scenario in SCENARIOS:
        wanted = [name for name in scenario.names if name in names]
        if not wanted:
            continue
        try:
            yield from scenario.run(setting, wanted)
        except (ScenarioError, TimeoutError) as error:
            yield from (Section(name, notes=[f"failed: {error}"]) for name in wanted)
