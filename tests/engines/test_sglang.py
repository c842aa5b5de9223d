"""SGLang's own classes, as its newest wheel has them, on top of our backend.

Real: SGLang's grammar manager, base classes, reasoning backend, plug-in loader, sampling batch and traversal of draft
trees; PyTorch for the CPU; a manager process. Stood in for: STAND_INS, the server's configuration (``get_serving``,
``get_exec``, which need a model and a device), the scheduler around the grammar manager, and the tokens of the model.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
from collections.abc import Iterator
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import own_namespace
from tests.engines import wheels
from tests.engines.loading import WIDTH, allowed, ids_of, load, no_manager, quietly, tokenizer

(base, manager_module, reasoner, stock, choices, plugins, trees, sampling) = load(
    "sglang",
    "sglang.srt.constrained.base_grammar_backend",
    "sglang.srt.constrained.grammar_manager",
    "sglang.srt.constrained.reasoner_grammar_backend",
    "sglang.srt.constrained.xgrammar_backend",
    "sglang.srt.arg_groups.choices",
    "sglang.srt.plugins",
    "sglang.srt.speculative.spec_utils",
    "sglang.srt.sampling.sampling_batch_info",
)

import torch  # noqa: E402

from shmcache.errors import LimitError  # noqa: E402
from shmcache.matcher.matcher import GrammarMatcher  # noqa: E402
from shmcache_workers import engine_plugins, sglang_backend  # noqa: E402

SCHEMA = json.dumps({"type": "object", "properties": {"a": {"enum": ["ab", "b"]}}, "required": ["a"]})
TOKENS = tokenizer()
STOP = TOKENS.eos_token_id


@dataclasses.dataclass
class Configuration:
    """The leaves of SGLang's configuration that its grammar code reads."""

    grammar_backend: str = "shmcache"
    constrained_json_disable_any_whitespace: bool = False
    constrained_json_max_whitespace_cnt: int | None = None
    constrained_json_whitespace_pattern: str | None = None
    reasoning_parser: str | None = None
    enable_strict_thinking: bool = False
    skip_tokenizer_init: bool = False
    pp_rank: int = 0
    pp_size: int = 1

    @property
    def kernel(self) -> Configuration:
        """As SGLang nests it."""
        return self

    def override(self, source: str, **fields: Any) -> None:
        """As ``RuntimeContext.override``."""
        for name, value in fields.items():
            setattr(self, name, value)


@pytest.fixture(scope="module")
def host() -> Iterator[str]:
    """The namespace of this module, whose tests share a manager."""
    with own_namespace() as name:
        yield name


@pytest.fixture(autouse=True)
def configuration(monkeypatch: pytest.MonkeyPatch, host: str) -> Configuration:
    """Read by SGLang and by us."""
    monkeypatch.setenv("SHMCACHE_NAMESPACE", host)
    made = Configuration()
    for module in (base, manager_module, sglang_backend):
        for name in ("get_serving", "get_exec", "get_context", "get_parallel"):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, lambda: made)
    monkeypatch.setattr(base, "GRAMMAR_BACKEND_REGISTRY", {})
    monkeypatch.setattr(choices, "GRAMMAR_BACKEND_CHOICES", kept := list(choices.GRAMMAR_BACKEND_CHOICES))
    monkeypatch.setattr(choices, "add_grammar_backend_choices", kept.extend)
    return made


@pytest.fixture
def backend() -> Any:
    """Ours, made as SGLang makes it."""
    engine_plugins.register_sglang()
    made = base.create_grammar_backend(None, TOKENS, WIDTH, {STOP}, think_end_ids=None)
    assert type(made) is sglang_backend.ShmcacheGrammarBackend
    made.caches.clear()
    yield made
    made.caches.close()


def succeeded(backend: Any) -> int:
    """How many compiles the manager has seen to their end."""
    return int(backend.caches.plain().stats()["compiles"]["succeeded"])


def dispatched(backend: Any, kind: str, text: str) -> Any:
    """What SGLang's own dispatch makes of a source."""
    grammar = backend._init_value_dispatch((kind, text), False)
    assert not isinstance(grammar, base.InvalidGrammarObject), grammar
    return grammar


def walk(grammar: Any, text: str) -> None:
    """Accepts a text, asking for every mask as SGLang does."""
    for token in ids_of(TOKENS, text):
        mask = grammar.allocate_vocab_mask(WIDTH, 1, "cpu")
        grammar.fill_vocab_mask(mask, 0)
        assert token in allowed(mask[0]), (text, token)
        grammar.accept_token(token)


# What SGLang is


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (sglang_backend.ShmcacheGrammar, base.BaseGrammarObject),
        (sglang_backend.ShmcacheGrammarBackend, base.BaseGrammarBackend),
    ],
)
def test_the_methods_of_the_base_classes_have_our_parameters(ours: Any, theirs: Any) -> None:
    for name, value in vars(theirs).items():
        if callable(getattr(theirs, name)) and not name.startswith("__") and name in vars(ours):
            expected = list(inspect.signature(getattr(theirs, name)).parameters)
            assert list(inspect.signature(getattr(ours, name)).parameters) == expected, name
            assert isinstance(vars(ours)[name], staticmethod) == isinstance(value, staticmethod), name


def test_the_base_classes_have_the_methods_we_know() -> None:
    known = {
        *("accept_token", "allocate_vocab_mask", "apply_vocab_mask", "copy", "fill_vocab_mask"),
        *("fill_vocab_mask_batched", "finished", "is_terminated", "jump_and_retokenize", "jump_forward_str_state"),
        *("maybe_init_reasoning", "move_vocab_mask", "reset_vocab_mask", "rollback", "try_jump_forward"),
    }
    assert {name for name in vars(base.BaseGrammarObject) if not name.startswith("_")} == known
    known = {
        *("compile_framed_grammar", "dispatch_ebnf", "dispatch_fallback", "dispatch_json", "dispatch_regex"),
        *("dispatch_structural_tag", "enable_strict_thinking", "get_cached_or_future_value", "get_request_grammar_key"),
        *("init_strict_reasoning_grammar", "initialize_vocab_mask_buffer", "is_support_token_filter"),
        *("reserve_framing_tokens", "reset", "set_cache", "set_token_filter"),
    }
    assert {name for name in vars(base.BaseGrammarBackend) if not name.startswith("_")} == known


def test_what_we_call_takes_what_we_give() -> None:
    parameters = {
        base.create_grammar_backend: ["server_args", "tokenizer", "vocab_size", "eos_token_ids", "think_end_ids"],
        base.register_grammar_backend: ["name", "init_func"],
        reasoner.ReasonerGrammarBackend: ["grammar_backend", "reasoning_parser", "tokenizer", "enable_strict_thinking"],
        base.GrammarRow: ["row", "grammar"],
        stock.set_token_filter_torch: ["vocab_mask", "token_ids", "batch_idx", "is_allowed", "reset_vocab_mask"],
        stock.XGrammarGrammarBackend.apply_vocab_mask: ["logits", "vocab_mask"],
    }
    for callee, expected in parameters.items():
        assert list(inspect.signature(callee).parameters) == expected, callee
    fields = [field.name for field in dataclasses.fields(base.GrammarStats)]
    assert {"dispatch_type", "is_cache_hit", "tree_traversal_time"} <= set(fields)
    assert list(inspect.signature(sglang_backend.get_context().override).parameters) == ["source", "fields"]


def test_the_choice_is_there_once_and_taken_by_the_parser() -> None:
    engine_plugins.register_sglang()
    engine_plugins.register_sglang()
    assert choices.GRAMMAR_BACKEND_CHOICES.count("shmcache") == 1
    assert list(base.GRAMMAR_BACKEND_REGISTRY) == ["shmcache"]


def test_the_entry_point_is_found_and_run_by_the_plug_in_loader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "_plugins_loaded", False)
    plugins.load_plugins()
    assert "shmcache" in base.GRAMMAR_BACKEND_REGISTRY


def test_installed_and_not_chosen_nothing_is_ours(configuration: Configuration) -> None:
    engine_plugins.register_sglang()
    configuration.grammar_backend = "xgrammar"
    with quietly():
        made = base.create_grammar_backend(None, TOKENS, WIDTH, {STOP})
    assert type(made) is stock.XGrammarGrammarBackend


@pytest.mark.parametrize("reasoning", [None, "qwen3"])
def test_without_a_manager_the_engine_has_its_own_backend(
    configuration: Configuration, monkeypatch: pytest.MonkeyPatch, namespace: str, reasoning: str | None
) -> None:
    no_manager(monkeypatch, namespace)
    configuration.reasoning_parser = reasoning
    engine_plugins.register_sglang()
    with quietly():
        made = base.create_grammar_backend(None, TOKENS, WIDTH, {STOP})
    assert configuration.grammar_backend == "xgrammar"
    inner = made.grammar_backend if reasoning else made
    assert type(inner) is stock.XGrammarGrammarBackend


def test_a_tokenizer_that_is_not_understood_is_left_to_the_engine(configuration: Configuration) -> None:
    engine_plugins.register_sglang()
    nameless = SimpleNamespace(init_xgrammar=lambda: (None, None))
    assert base.create_grammar_backend(None, nameless, WIDTH, {STOP}) is None
    assert configuration.grammar_backend in ("xgrammar", "none")


# What is compiled


@pytest.mark.parametrize(
    ("kind", "source", "text"),
    [
        ("json", SCHEMA, '{"a": "ab"}'),
        ("json", '{"type": "object"}', '{"b": [1]}'),
        ("json", "$$ANY$$", '[null, {"b": true}]'),
        ("regex", "(ab|null)+", "abnullab"),
        ("ebnf", 'root ::= "a" root | "b"', "aab"),
        ("full_assistant_ebnf", 'root ::= "<|tool|>" "ab" "<|end_tool|>"', "<|tool|>ab<|end_tool|>"),
        (
            "structural_tag",
            json.dumps(
                {
                    "structures": [{"begin": "<|tool|>", "schema": json.loads(SCHEMA), "end": "<|end_tool|>"}],
                    "triggers": ["<|tool|>"],
                }
            ),
            'b<|tool|>{"a": "b"}<|end_tool|>ab',
        ),
        (
            "structural_tag",
            json.dumps(
                {
                    "type": "structural_tag",
                    "format": {
                        "type": "tag",
                        "begin": "<|tool|>",
                        "content": {"type": "json_schema", "json_schema": None},
                        "end": "<|end_tool|>",
                    },
                }
            ),
            '<|tool|>{"b": 1}<|end_tool|>',
        ),
    ],
)
def test_every_kind_is_compiled_once_and_followed(backend: Any, kind: str, source: str, text: str) -> None:
    before = succeeded(backend)
    grammar = dispatched(backend, kind, source)
    for one in (grammar, grammar.copy()):
        walk(one, text)
        assert not one.is_terminated()
        one.accept_token(STOP)
        assert one.is_terminated()
        one.accept_token(STOP)  # nothing after the end
        one.rollback(1)
        assert not one.is_terminated()
    assert grammar.copy().grammar_stats.is_cache_hit
    assert not grammar.grammar_stats.is_cache_hit
    assert grammar.grammar_stats.compilation_time > 0
    dispatched(backend, kind, source)
    assert succeeded(backend) == before + 1


def test_a_legacy_tag_can_be_demanded(backend: Any) -> None:
    structures = [{"begin": "<|tool|>", "schema": None, "end": "<|end_tool|>"}]
    tag = {"structures": structures, "triggers": ["<|tool|>"], "at_least_one": True}
    grammar = dispatched(backend, "structural_tag", json.dumps(tag))
    with pytest.raises(ValueError, match="not allowed"):
        grammar.accept_token(STOP)
    walk(grammar, "<|tool|>null<|end_tool|>")
    grammar.accept_token(STOP)


@pytest.mark.parametrize(
    ("kind", "source"),
    [
        ("json", "{"),
        ("json", '{"type": "nothing"}'),
        ("regex", "("),
        ("ebnf", "root ::= other"),
        ("structural_tag", "[]"),
        ("structural_tag", "{}"),
        ("structural_tag", '{"format": {"type": "unknown"}}'),
        ("structural_tag", '{"structures": [], "triggers": null}'),
        ("structural_tag", '{"format": ' + "[" * 5000),
        ("json", "[" * 100_000),
    ],
)
def test_what_is_wrong_becomes_an_invalid_grammar_with_its_reason(backend: Any, kind: str, source: str) -> None:
    method = getattr(backend, f"dispatch_{kind}")
    refused = method(source)
    assert isinstance(refused, base.InvalidGrammarObject)


def test_whitespace_options_reach_the_compiler(configuration: Configuration) -> None:
    configuration.constrained_json_disable_any_whitespace = True
    engine_plugins.register_sglang()
    made = base.create_grammar_backend(None, TOKENS, WIDTH, {STOP})
    grammar = dispatched(made, "json", SCHEMA)
    walk(grammar, "{")
    with pytest.raises(ValueError, match="not allowed"):
        grammar.accept_token(ids_of(TOKENS, " ")[0])
    made.caches.close()


def test_special_tokens_are_no_text_of_a_json_string(backend: Any) -> None:
    grammar = dispatched(backend, "json", '{"type": "string"}')
    walk(grammar, '"a')
    mask = grammar.allocate_vocab_mask(WIDTH, 1, "cpu")
    grammar.fill_vocab_mask(mask, 0)
    special = {*TOKENS.all_special_ids, *ids_of(TOKENS, "<|tool|><think>"), *range(len(TOKENS), WIDTH)}
    assert not allowed(mask[0]) & special


def test_a_flush_clears_the_host(backend: Any) -> None:
    key = ("json", SCHEMA)
    backend.set_cache(key, dispatched(backend, *key))
    before, count = backend.caches.plain().stats(), succeeded(backend)
    backend.reset()
    after = backend.caches.plain().stats()
    assert after["generation"] == before["generation"] + 1
    assert not backend.cache
    assert backend.caches.plain().get_cache_size_bytes() == 0
    dispatched(backend, *key)
    assert succeeded(backend) == count + 1


# Masks


def test_masks_of_a_batch_are_applied_and_other_rows_are_left(backend: Any) -> None:
    one, other = dispatched(backend, "regex", "a"), dispatched(backend, "regex", "b")
    mask = one.allocate_vocab_mask(vocab_size=WIDTH, batch_size=3, device="cpu")
    assert (mask.dtype, tuple(mask.shape)) == (torch.int32, (3, -(-WIDTH // 32)))
    rows = [base.GrammarRow(row=2, grammar=one), base.GrammarRow(row=0, grammar=other)]
    one.fill_vocab_mask_batched(rows, mask)
    logits = torch.zeros(3, WIDTH)
    base.GrammarMask(one, one.move_vocab_mask(mask, "cpu")).apply(logits)
    kept = [set(torch.nonzero(row == 0).flatten().tolist()) for row in logits]
    assert kept == [set(ids_of(TOKENS, "b")), set(range(WIDTH)), set(ids_of(TOKENS, "a"))]
    assert (logits[logits != 0] == float("-inf")).all()
    one.reset_vocab_mask(mask)
    assert (mask == -1).all()


def test_the_mask_is_applied_as_the_other_backend_applies_it(backend: Any) -> None:
    grammar = dispatched(backend, "regex", "[a-m]+")
    mask = grammar.allocate_vocab_mask(WIDTH, 2, "cpu")
    grammar.fill_vocab_mask(mask, 1)
    ours, theirs = torch.randn(2, WIDTH).repeat(2, 1, 1)
    grammar.apply_vocab_mask(ours, mask)
    stock.XGrammarGrammar.apply_vocab_mask(None, theirs, mask)
    assert torch.equal(ours, theirs)


def test_the_batch_of_the_sampler_takes_them(backend: Any) -> None:
    grammars = [dispatched(backend, "regex", "a"), None, dispatched(backend, "regex", "b")]
    batch = SimpleNamespace(grammars=grammars, vocab_size=WIDTH, temperatures=torch.ones(3), device="cpu")
    sampling.SamplingBatchInfo.update_regex_vocab_mask(batch)
    assert [len(allowed(row) & set(range(WIDTH))) for row in batch.grammar_mask.vocab_mask] == [1, WIDTH, 1]


@pytest.mark.parametrize("is_allowed", [True, False])
def test_tokens_are_filtered_in_a_mask(backend: Any, is_allowed: bool) -> None:
    mask = backend.allocate_vocab_mask(WIDTH, 2, "cpu")
    backend.set_token_filter(mask, [5, 37], 1, is_allowed=is_allowed)
    everything = set(range(32 * mask.shape[1]))
    assert allowed(mask[1]) == ({5, 37} if is_allowed else everything - {5, 37})
    assert allowed(mask[0]) == everything
    assert backend.is_support_token_filter


# Drafts and jumps


def test_a_tree_of_drafts_is_followed_by_the_engine(backend: Any) -> None:
    grammar = dispatched(backend, "regex", "(ab|ba)")
    a, b = (ids_of(TOKENS, text)[0] for text in "ab")
    # Root → a → b → </s>, and beside a: b → b, which is not allowed.
    tree = {"next": [1, 2, 3, -1, 5, -1], "sibling": [-1, 4, -1, -1, -1, -1], "token": [0, a, b, STOP, b, b]}
    links = [torch.tensor(tree[name]) for name in ("next", "sibling", "token")]
    mask = grammar.allocate_vocab_mask(WIDTH, 6, "cpu")
    trees.traverse_tree(*links, grammar, mask, WIDTH)
    merged = ids_of(TOKENS, "ab")[0]
    found = [allowed(row) for row in mask]
    assert found[0] == {a, b, merged}
    assert (found[1], found[2], found[4]) == ({b}, {STOP}, {a})
    everything = set(range(32 * mask.shape[1]))
    assert found[3] == found[5] == everything  # as they were allocated: behind the end, and behind what is not allowed
    walk(grammar, "ab")  # and the grammar is where it was


def test_a_draft_that_cannot_be_followed_ends_its_request_and_not_the_scheduler(
    backend: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    grammar = dispatched(backend, "regex", "ab+")
    [a], [b] = ids_of(TOKENS, "a"), ids_of(TOKENS, "b")
    accept = GrammarMatcher.accept_token

    def refuse_b(matcher: GrammarMatcher, token: int) -> bool:
        if token == b:
            raise LimitError("too ambiguous", limit="configuration_entries", value=1)
        return accept(matcher, token)

    monkeypatch.setattr(GrammarMatcher, "accept_token", refuse_b)
    links = [torch.tensor(links) for links in ([1, 2, 3, -1], [-1] * 4, [0, a, b, STOP])]
    mask = grammar.allocate_vocab_mask(WIDTH, 4, "cpu")
    trees.traverse_tree(*links, grammar, mask, WIDTH)
    assert [len(allowed(row)) for row in mask[:3]] == [2, 1, 1]
    assert STOP not in allowed(mask[2])
    grammar.accept_token(a)
    grammar.accept_token(b)
    with pytest.raises(ValueError, match="too ambiguous"):
        grammar.accept_token(b)


def test_a_long_rollback_goes_across_the_end(backend: Any) -> None:
    grammar = dispatched(backend, "regex", "a{300}")
    [a] = ids_of(TOKENS, "a")
    for token in [a] * 300 + [STOP]:
        grammar.accept_token(token)
    grammar.rollback(300)
    assert not grammar.is_terminated()
    for token in [a] * 299 + [STOP]:
        grammar.accept_token(token)
    assert grammar.is_terminated()


def test_a_jump_is_taken_back_to_where_the_tokens_part(backend: Any) -> None:
    grammar = dispatched(backend, "json", '{"const": {"ab": null}}')
    grammar.accept_token(ids_of(TOKENS, "{")[0])
    assert grammar.try_jump_forward(TOKENS) is None  # there may be whitespace
    grammar.accept_token(ids_of(TOKENS, '"')[0])
    helper = grammar.try_jump_forward(TOKENS)
    text, state = grammar.jump_forward_str_state(helper)
    assert text == 'ab"'
    old = ids_of(TOKENS, "{") + ids_of(TOKENS, '"')
    new = ids_of(TOKENS, "{") + ids_of(TOKENS, '"') + ids_of(TOKENS, text)
    grammar.jump_and_retokenize(old, new, state)
    walk(grammar, ": null")
    bad = [*new, ids_of(TOKENS, "b")[0]]
    with pytest.raises(ValueError, match="not allowed"):
        grammar.jump_and_retokenize(new, bad, state)


def test_a_rejected_token_changes_nothing(backend: Any) -> None:
    grammar = dispatched(backend, "regex", "ab")
    for token in (ids_of(TOKENS, "b")[0], STOP, WIDTH, -1):
        with pytest.raises(ValueError, match="not allowed"):
            grammar.accept_token(token)
    walk(grammar, "ab")


# Reasoning


@pytest.fixture
def thoughtful(configuration: Configuration) -> Any:
    """The reasoning backend around ours."""
    configuration.reasoning_parser = "qwen3"
    engine_plugins.register_sglang()
    made = base.create_grammar_backend(None, TOKENS, WIDTH, {STOP})
    assert type(made) is reasoner.ReasonerGrammarBackend
    assert type(made.grammar_backend) is sglang_backend.ShmcacheGrammarBackend
    yield made
    made.grammar_backend.caches.close()


def test_thoughts_are_free_and_answers_are_not(thoughtful: Any) -> None:
    grammar = thoughtful._init_value_dispatch(("regex", "ab"), True)
    for token in ids_of(TOKENS, "b null"):
        grammar.accept_token(token)
    [end] = ids_of(TOKENS, "</think>")
    grammar.accept_token(end)
    mask = grammar.allocate_vocab_mask(WIDTH, 1, "cpu")
    grammar.fill_vocab_mask(mask, 0)
    assert allowed(mask[0]) == {ids_of(TOKENS, "a")[0], ids_of(TOKENS, "ab")[0]}
    grammar.accept_token(ids_of(TOKENS, "ab")[0])
    grammar.rollback(2)  # into the thought
    grammar.accept_token(ids_of(TOKENS, "b")[0])
    with pytest.raises(ValueError, match="not allowed"):
        [grammar.accept_token(token) for token in [end, STOP]]


def test_a_framed_grammar_is_the_grammar_with_its_frame(backend: Any) -> None:
    [tool] = ids_of(TOKENS, "<|tool|>")
    backend.reserve_framing_tokens([tool])

    def frame(content: dict[str, Any]) -> dict[str, Any]:
        token = {"type": "token", "token": tool}
        return {"type": "structural_tag", "format": {"type": "sequence", "elements": [token, content, token]}}

    for kind, source, text in (("json", SCHEMA, '{"a": "b"}'), ("regex", "a+", "aa"), ("ebnf", 'root ::= "b"', "b")):
        framed = backend.compile_framed_grammar(dispatched(backend, kind, source), frame)
        walk(framed, f"<|tool|>{text}<|tool|>")
        framed.accept_token(STOP)
    tag = dispatched(backend, "structural_tag", '{"format": {"type": "any_text"}}')
    assert backend.compile_framed_grammar(tag, frame) is None


# The grammar manager


@dataclasses.dataclass
class Request:
    """The fields of a request that the grammar manager touches."""

    rid: str
    sampling_params: Any
    require_reasoning: bool = False
    grammar: Any = None
    grammar_key: Any = None
    grammar_wait_ct: int = 0
    origin_input_ids: tuple[int, ...] = ()
    aborted: str | None = None

    def finished(self) -> bool:
        """Whether it was aborted."""
        return self.aborted is not None

    def set_finish_with_abort(self, message: str) -> None:
        """As the scheduler's requests have it."""
        self.aborted = message


def request(name: str, **constraint: str) -> Request:
    """One with one constraint."""
    fields = {"json_schema": None, "regex": None, "ebnf": None, "structural_tag": None, **constraint}
    return Request(name, SimpleNamespace(**fields, ebnf_full_assistant=False, custom_params=None))


@pytest.fixture
def manager() -> Any:
    """SGLang's grammar manager of one rank, with our backend."""
    engine_plugins.register_sglang()
    scheduler = SimpleNamespace(
        server_args=None,
        tokenizer=TOKENS,
        model_config=SimpleNamespace(vocab_size=WIDTH, hf_eos_token_id={STOP}, think_end_ids=None),
        dp_tp_cpu_group=None,
        dp_tp_group=SimpleNamespace(world_size=1, first_rank=0, is_first_rank=True),
        pp_group=None,
    )
    made = manager_module.GrammarManager(scheduler)
    assert type(made.grammar_backend) is sglang_backend.ShmcacheGrammarBackend
    yield made
    made.grammar_backend.caches.close()


def test_requests_wait_for_their_grammar_and_the_next_one_does_not(manager: Any) -> None:
    first, bad = request("1", json_schema=SCHEMA), request("2", regex="(")
    assert manager.process_req_with_grammar(first)
    assert manager.process_req_with_grammar(bad)
    for one in (first, bad):
        one.grammar.exception(timeout=60)
    assert {one.rid for one in manager.get_ready_grammar_requests()} == {"1", "2"}
    assert bad.aborted.startswith("Failed to compile regex grammar: ")
    walk(first.grammar, '{"a": "ab"}')
    second, again = request("3", json_schema=SCHEMA), request("4", regex="(")
    assert not manager.process_req_with_grammar(second)
    walk(second.grammar, '{"a": "b"}')
    assert not manager.process_req_with_grammar(again)
    assert again.aborted
    manager.clear()
    assert manager.process_req_with_grammar(request("5", json_schema=SCHEMA))


def test_one_that_takes_too_long_is_ended_by_the_engine(manager: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manager.grammar_backend.executor, "submit", lambda *_: Future())
    manager.SGLANG_GRAMMAR_MAX_POLL_ITERATIONS, manager.SGLANG_GRAMMAR_POLL_INTERVAL = 1, 0.0
    one = request("1", regex="a")
    manager.process_req_with_grammar(one)
    assert manager.get_ready_grammar_requests() == [one]
    assert "timed out" in one.aborted
    assert manager.grammar_backend.cache[("regex", "a")].copy().error_message


def test_an_aborted_request_leaves_the_queue(manager: Any) -> None:
    one = request("1", regex="ab")
    manager.process_req_with_grammar(one)
    manager.abort_requests(SimpleNamespace(abort_all=False, rid="1"))
    assert manager.get_ready_grammar_requests() == [one]
    assert not manager.has_waiting_grammars()


def test_the_release_is_the_one_that_was_read() -> None:
    assert wheels.version("sglang") == "0.5.23", "another release: read what changed, then change this line"
