"""How cost grows with the source and with the vocabulary.

Owns the series and what is timed of them. Must never print.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from shmcache.vocabulary.vocabulary import Vocabulary
from shmcache_tools.benchmark.comparing import measured
from shmcache_tools.benchmark.corpus import TOKENS_MAX, Case, LongestTokens
from shmcache_tools.benchmark.engines import ENGINES, Engine
from shmcache_tools.benchmark.figures import OURS, Goal, Plot, Point, Section, Table, percentile
from shmcache_tools.benchmark.setting import Setting

STEP_P99_US_MAX = 1_000.0
EXPONENT_MAX = 1.1
"""Of cost over size from one size to the next: 1 is linear, and what is beyond it here is noise."""

VOCABULARY_SIZES = (32_768, 131_072, 262_144)
MEMBERS_OF_INSTANCE = 40


@dataclass(frozen=True, slots=True)
class Series:
    """Schemas of one kind by size, each with an instance."""

    name: str
    sizes: tuple[int, ...]
    make: Callable[[int], tuple[Any, Any]]


def _properties(size: int) -> tuple[Any, Any]:
    types = ("string", "integer", "boolean")
    values = ("some text", 1234, True)
    names = [f"field_{number:04d}" for number in range(size)]
    schema = {"type": "object", "properties": {name: {"type": types[at % 3]} for at, name in enumerate(names)}}
    chosen = range(0, size, max(1, size // MEMBERS_OF_INSTANCE))
    return schema, {names[at]: values[at % 3] for at in chosen}


def _enum(size: int) -> tuple[Any, Any]:
    rng = random.Random(size)
    words = [f"{rng.randrange(16**8):08x} choice {number}" for number in range(size)]
    return {"type": "array", "items": {"enum": words}}, words[:: max(1, size // MEMBERS_OF_INSTANCE)]


def _nesting(size: int) -> tuple[Any, Any]:
    schema: Any = {"type": "integer"}
    value: Any = 7
    for _ in range(size):
        schema = {"type": "object", "properties": {"in": schema}, "required": ["in"]}
        value = {"in": value}
    return schema, value


def _max_length(size: int) -> tuple[Any, Any]:
    words = " ".join(f"word{number}" for number in range(size // 5 + 1))
    return {"type": "string", "maxLength": size}, words[:size]


SERIES = (
    Series("properties", (10, 100, 500, 2_000), _properties),
    Series("enum", (10, 100, 1_000, 10_000), _enum),
    Series("nesting", (5, 20, 80, 160), _nesting),
    Series("maxLength", (10, 100, 1_000, 100_000), _max_length),
)


def growth_section(setting: Setting) -> Section:
    """A row for each size of each series; the exponent of our cost between the two largest sizes."""
    section = Section("growth")
    engines = [name for name in setting.engine_names if name != "xgrammar-strict"]
    header = ("", "size", *(f"{name}, {what}" for what in ("cold", "p99") for name in map(_short, engines)))
    rows: list[tuple[Any, ...]] = []
    for series, points in _all_series(setting, engines):
        found: dict[str, list[tuple[int, dict[str, Any]]]] = {name: [] for name in engines}
        for size, case, ready in points:
            answers = {}
            for name in engines:
                setting.tell(f"growth: {series} {size:,}, {name}")
                answers[name] = measured(ready(name), case, seconds_max=setting.scale.pair_seconds_max)
                if "error" not in answers[name]:
                    found[name].append((size, answers[name]))
                else:
                    section.notes.append(f"{series} {size:,}, {name}: {answers[name]['error'].splitlines()[0][:80]}")
            cold = (answer.get("cold_us", "not taken") for answer in answers.values())
            rows.append((series, size, *cold, *map(_step_p99, answers.values())))
        section.goals += _goals(series, found.get(OURS, []))
        dots = {name: [Point(size, answer["cold_us"]) for size, answer in answers] for name, answers in found.items()}
        section.plots.append(Plot(f"growth-{series}", f"growth: {series}", series, "µs, cold", dots))
    units = ("", "", *(["µs"] * 2 * len(engines)))
    section.parts = [Table("growth: cold compile, and p99 of first steps", header, units, rows)]
    return section


def _short(name: str) -> str:
    return {"shmcache": "ours", "llguidance": "llg", "xgrammar": "xgr"}.get(name, name)


Ready = Callable[[str], Engine]


def _all_series(setting: Setting, engines: Sequence[str]) -> Iterator[tuple[str, Iterator[tuple[int, Case, Ready]]]]:
    tokenizer = LongestTokens(setting.vocabulary)

    def of(series: Series) -> Iterator[tuple[int, Case, Ready]]:
        for size in series.sizes[: setting.scale.growth_points]:
            schema, value = series.make(size)
            yield size, _case(f"{series.name}-{size}", schema, value, tokenizer), setting.engine

    for series in SERIES:
        yield series.name, of(series)
    yield "vocabulary", _vocabularies(setting)


def _case(name: str, schema: Any, value: Any, tokenizer: LongestTokens) -> Case:
    tokens = tokenizer.encode(json.dumps(value, ensure_ascii=False))[:TOKENS_MAX]
    return Case(name, json.dumps(schema), (tuple(tokens),))


def _vocabularies(setting: Setting) -> Iterator[tuple[int, Case, Ready]]:
    schema, value = _properties(50)
    for size in VOCABULARY_SIZES[: setting.scale.growth_points]:
        vocabulary = resized(setting.vocabulary, size, setting.seed)
        made: dict[str, Engine] = {}

        def ready(name: str, vocabulary: Vocabulary = vocabulary, made: dict[str, Engine] = made) -> Engine:
            if name not in made:
                made[name] = ENGINES[name].load(vocabulary)
            return made[name]

        yield size, _case(f"vocabulary-{size}", schema, value, LongestTokens(vocabulary)), ready


def resized(vocabulary: Vocabulary, size: int, seed: int) -> Vocabulary:
    """The vocabulary cut to its first ``size`` tokens, or with made-up ones behind them: pairs of its own."""
    tokens = [vocabulary.token_bytes(token_id) for token_id in range(min(size, vocabulary.size))]
    known = set(tokens)
    texts = [vocabulary.token_bytes(token_id) for token_id in vocabulary.text_token_ids().tolist()]
    rng = random.Random(seed)
    while len(tokens) < size:
        token = rng.choice(texts) + rng.choice(texts)
        if token not in known:
            known.add(token)
            tokens.append(token)
    kept = [token_id for token_id in vocabulary.special_token_ids if token_id < size]
    return Vocabulary(tokens, kept, [token_id for token_id in vocabulary.stop_token_ids if token_id < size])


def _step_p99(answer: dict[str, Any]) -> float | None:
    steps = answer.get("first_step_us")
    return percentile(steps, 99) if steps else None


def _goals(series: str, ours: Sequence[tuple[int, dict[str, Any]]]) -> list[Goal]:
    goals = []
    if len(ours) >= 2:
        (small, before), (large, after) = ours[-2:]
        exponent = math.log(after["cold_us"] / before["cold_us"]) / math.log(large / small)
        goals.append(Goal(f"growth of cold with {series}: exponent", exponent, EXPONENT_MAX, ""))
    worst = max(
        (percentile(answer["first_step_us"], 99) for _, answer in ours if answer["first_step_us"]), default=None
    )
    if worst is not None:
        goals.append(Goal(f"step p99 with {series}, worst size", worst, STEP_P99_US_MAX, "µs"))
    return goals
