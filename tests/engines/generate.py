"""Generations of a real model under real schemas: all of them valid, whatever becomes of the cache.

    python -m tests.engines.generate

makes 200 generations under 20 schemas three times, without the cache process, with it, and with its manager killed in
the midst of a generation, and says what came out. It needs the extra ``huggingface-generate``.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jsonschema

from shmcache.client import connect
from shmcache.matcher.compiled_grammar import CompiledGrammar
from shmcache.matcher.matcher import GrammarMatcher
from shmcache.memory.election import holder_pid
from shmcache.memory.names import SHM_DIRECTORY, Namespace
from shmcache.private import compile_json_schema
from shmcache.vocabulary.vocabulary import Vocabulary
from tests.engines.tiny_model import WIDTH, make_model, make_tokenizer, prompts

Compile = Callable[[Any], CompiledGrammar]

NEW_TOKENS_MAX = 1_500
ROWS = 20
"""In one batch."""

_NAME = {"type": "string", "minLength": 1, "maxLength": 12}
_AGE = {"type": "integer", "minimum": 0, "maximum": 150}


def _object(required: list[str] | None = None, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties) if required is None else required}


SCHEMAS: list[dict[str, Any]] = [
    _object(name=_NAME, age=_AGE),
    _object(["name"], name=_NAME, age=_AGE, ok={"type": "boolean"}),
    _object(color={"enum": ["red", "green", "blue"]}, size={"enum": ["S", "M", "L", 1, 2, None]}),
    _object(tags={"type": "array", "items": {"type": "string", "maxLength": 5}, "minItems": 1, "maxItems": 4}),
    _object(point={"type": "array", "prefixItems": [_AGE, _AGE], "minItems": 2, "maxItems": 2}),
    _object(id={"type": "string", "pattern": "^[A-Z]{2}-[0-9]{4}$"}),
    _object(when={"type": "string", "format": "date"}, at={"type": "string", "format": "time"}),
    _object(ip={"type": "string", "format": "ipv4"}, uuid={"type": "string", "format": "uuid"}),
    _object(value={"anyOf": [{"type": "boolean"}, {"type": "null"}, _AGE]}),
    _object(kind={"const": "leaf"}, child=_object(kind={"const": "inner"}, child=_object(n=_AGE))),
    {"type": "array", "items": {"type": "boolean"}, "minItems": 3, "maxItems": 6},
    {"type": "integer", "multipleOf": 7, "minimum": -700, "maximum": 700},
    {"oneOf": [_object(a={"type": "boolean"}), _object(b={"type": "null"})]},
    _object(n={"type": "integer", "exclusiveMinimum": 10, "exclusiveMaximum": 20}, s={"enum": ["日本", "語", "é"]}),
    {"type": "object", "additionalProperties": {"type": "boolean"}, "maxProperties": 2, "propertyNames": _NAME},
    {"type": "object", "patternProperties": {"^x_[a-z]{1,3}$": _AGE}, "minProperties": 1, "maxProperties": 3},
    {"allOf": [_object(a=_AGE), {"properties": {"a": {"minimum": 100}}}]},
    {"type": "array", "items": {"enum": [1, 2, 3]}, "uniqueItems": True, "minItems": 2, "maxItems": 3},
    {
        "$defs": {"leaf": _object(v={"type": "boolean"})},
        **_object(l={"$ref": "#/$defs/leaf"}, r={"$ref": "#/$defs/leaf"}),
    },
    {"if": {"required": ["a"]}, "then": {"required": ["b"]}, **_object([], a={"type": "null"}, b={"type": "null"})},
]
"""All of them end by themselves: every text that they admit is short."""


@dataclass(slots=True)
class Outcome:
    """What came of a number of generations."""

    seconds: float = 0.0
    valid: int = 0
    cut: int = 0
    """Cut at the greatest length; each was found to be the beginning of a valid text."""
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        found = f"{self.valid} valid, {self.cut} cut but viable, {len(self.wrong)} wrong, {self.seconds:.1f} s"
        return "\n  ".join([found, *self.wrong])


class KillAtStep:
    """A logits processor that changes nothing, and ends the manager at a step of the first generation it sees."""

    supports_continuous_batching = False

    def __init__(self, namespace: Namespace, step: int) -> None:
        self._namespace = namespace
        self._steps_left = step
        self.killed: int | None = None

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        self._steps_left -= 1
        if self._steps_left == 0:
            self.killed = holder_pid(self._namespace)
            assert self.killed, "there is no manager to kill"
            os.kill(self.killed, signal.SIGKILL)
        return scores


class Bench:
    """The model, its tokenizer and vocabulary, made once for all runs."""

    def __init__(self) -> None:
        import torch

        torch.set_num_threads(1)
        self.tokenizer = make_tokenizer()
        self.model = make_model(self.tokenizer)
        self.vocabulary = Vocabulary.from_huggingface(self.tokenizer, width=WIDTH)

    def run(self, compiled: Compile, generations: int, seed: int, extra: list[Any] | None = None) -> Outcome:
        """So many generations, in batches of mixed schemas: half of the schemas first, the others after half of them.

        ``extra`` logits processors take part in the last batch of the first half.
        """
        import torch

        from shmcache_workers.huggingface import LogitsProcessor

        torch.manual_seed(seed)
        outcome = Outcome()
        started = time.perf_counter()
        rows = min(ROWS, generations // 2)
        batches = generations // rows
        half = len(SCHEMAS) // 2
        for batch in range(batches):
            pool = SCHEMAS[:half] if batch < batches // 2 else SCHEMAS[half:]
            schemas = [pool[(batch * rows + row) % half] for row in range(rows)]
            processors = [LogitsProcessor([compiled(schema) for schema in schemas])]
            if extra and batch == batches // 2 - 1:
                processors += extra
            inputs = prompts(self.tokenizer, [f"number {row}" + " the" * (row % 3) for row in range(rows)])
            output = self.model.generate(
                **inputs, do_sample=True, max_new_tokens=NEW_TOKENS_MAX, logits_processor=processors
            )
            for schema, tokens in zip(schemas, output[:, inputs["input_ids"].shape[1] :].tolist(), strict=True):
                self._judge(outcome, schema, tokens)
        outcome.seconds = time.perf_counter() - started
        return outcome

    def _judge(self, outcome: Outcome, schema: Any, tokens: list[int]) -> None:
        end = self.tokenizer.eos_token_id
        is_whole = end in tokens
        tokens = tokens[: tokens.index(end)] if is_whole else tokens
        text = b"".join(map(self.vocabulary.token_bytes, tokens)).decode("utf-8", "replace")
        if not is_whole:
            matcher = GrammarMatcher(compile_json_schema(schema, self.vocabulary, any_whitespace=False))
            if all(map(matcher.accept_token, tokens)):
                outcome.cut += 1
            else:
                outcome.wrong.append(f"no beginning: {text!r}")
            return
        try:
            checker = jsonschema.Draft202012Validator.FORMAT_CHECKER
            jsonschema.validate(json.loads(text), schema, jsonschema.Draft202012Validator, format_checker=checker)
            outcome.valid += 1
        except (ValueError, jsonschema.ValidationError) as error:
            outcome.wrong.append(f"{text!r}: {error}".splitlines()[0])

    def without_cache(self, generations: int) -> Outcome:
        """Every grammar compiled in this process."""
        return self.run(
            lambda schema: compile_json_schema(schema, self.vocabulary, any_whitespace=False), generations, seed=1
        )

    def with_cache(self, generations: int, name: str) -> Outcome:
        """Every grammar from the cache of the namespace, whose manager is started for it."""
        with connect(self.vocabulary, name) as cache:
            assert cache.has_manager(), "no manager could be started"
            outcome = self.run(lambda schema: cache.compile_json_schema(schema, any_whitespace=False), generations, 2)
            assert cache.stats()["compiles"]["succeeded"] >= min(len(SCHEMAS), generations), cache.stats()
        return outcome

    def with_killed_manager(self, generations: int, name: str) -> Outcome:
        """The same; the manager is killed in the midst of a generation, and half of the schemas come only then."""
        with connect(self.vocabulary, name) as cache:
            assert cache.has_manager(), "no manager could be started"
            killer = KillAtStep(Namespace.of(name), step=5)
            compiled = lambda schema: cache.compile_json_schema(schema, any_whitespace=False)  # noqa: E731
            outcome = self.run(compiled, generations, 3, extra=[killer])
            assert killer.killed is not None
            assert holder_pid(Namespace.of(name)) != killer.killed
        return outcome


def _end(name: str) -> None:
    """Ends the manager of a namespace of this run, and takes its objects away."""
    namespace = Namespace.of(name)
    if pid := holder_pid(namespace):
        os.kill(pid, signal.SIGKILL)
    for directory in (SHM_DIRECTORY, namespace.directory):
        for path in directory.glob(f"{namespace.prefix.removeprefix('/')}*"):
            path.unlink(missing_ok=True)


def main(generations: int = 200) -> int:
    """Runs all three, and says how they went; 0 if nothing was wrong."""
    import torch
    import transformers

    bench = Bench()
    names = [f"generate-{uuid.uuid4().hex[:8]}" for _ in range(2)]
    say = sys.stdout.write
    say(f"transformers {transformers.__version__}, torch {torch.__version__}, {bench.vocabulary!r}\n")
    try:
        wrong = 0
        for what, run in (
            ("without the cache process", lambda: bench.without_cache(generations)),
            ("with the cache process", lambda: bench.with_cache(generations, names[0])),
            ("with the manager killed midway", lambda: bench.with_killed_manager(generations, names[1])),
        ):
            outcome = run()
            wrong += len(outcome.wrong)
            say(f"{what}: {generations} generations under {len(SCHEMAS)} schemas: {outcome}\n")
            sys.stdout.flush()
        return int(wrong > 0)
    finally:
        for name in names:
            _end(name)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
