"""vLLM's own classes, as its newest wheel has them, on top of our backend.

Real: vLLM's structured-output manager, base classes, XGrammar backend, plug-in loader and beam search; XGrammar and
PyTorch for the CPU; a manager process. Stood in for: the engine's configuration (which needs a model), its requests and
the tokenizer of the model.
"""

from __future__ import annotations

import inspect
import json
import logging
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import own_namespace
from tests.engines import wheels
from tests.engines.loading import WIDTH, allowed, ids_of, load, no_manager, quietly, tokenizer

(types, stock, manager_module, plugins, beams, parameters_module, requests_module, vllm) = load(
    "vllm",
    "vllm.v1.structured_output.backend_types",
    "vllm.v1.structured_output.backend_xgrammar",
    "vllm.v1.structured_output",
    "vllm.plugins",
    "vllm.entrypoints.generate.beam_search.offline",
    "vllm.sampling_params",
    "vllm.v1.structured_output.request",
    "vllm",
)

import torch  # noqa: E402

from shmcache.vocabulary.mistral import _packaged_file  # noqa: E402
from shmcache_workers import engine_plugins, vllm_backend  # noqa: E402

Kind = types.StructuredOutputOptions
STOCK = vllm_backend.StockBackend
SCHEMA = json.dumps({"type": "object", "properties": {"a": {"enum": ["ab", "b"]}}, "required": ["a"]})
TOKENS = tokenizer()
STOP = TOKENS.eos_token_id


@pytest.fixture(scope="module")
def host() -> Iterator[str]:
    """The namespace of this module, whose tests share a manager."""
    with own_namespace() as name:
        yield name


@pytest.fixture(autouse=True)
def switched_on(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    """Opted in, but not yet bound; afterwards vLLM is as it was."""
    monkeypatch.setenv("SHMCACHE_NAMESPACE", host)
    monkeypatch.setenv("SHMCACHE_VLLM", "1")
    for place in (stock, manager_module):
        monkeypatch.setattr(place, "XgrammarBackend", STOCK)


def configuration(*, disable_any_whitespace: bool = False, drafts: int = 0) -> Any:
    """What of vLLM's configuration its grammar code reads."""
    return SimpleNamespace(
        structured_outputs_config=SimpleNamespace(
            disable_any_whitespace=disable_any_whitespace,
            reasoning_parser="",
            reasoning_parser_plugin="",
            enable_in_reasoning=False,
        ),
        model_config=SimpleNamespace(
            hf_config=SimpleNamespace(model_type="llama"),
            skip_tokenizer_init=False,
            is_diffusion=False,
            get_vocab_size=lambda: WIDTH,
        ),
        parallel_config=SimpleNamespace(distributed_executor_backend="mp"),
        scheduler_config=SimpleNamespace(max_num_seqs=8),
        speculative_config=SimpleNamespace(num_speculative_tokens=drafts) if drafts else None,
        num_speculative_tokens=drafts,
    )


@pytest.fixture
def backend() -> Iterator[Any]:
    """Ours, with an empty cache."""
    made = vllm_backend.ShmcacheBackend(configuration(), tokenizer=TOKENS, vocab_size=WIDTH)
    caches = made._served_by()
    assert caches is not None
    caches.clear()
    yield made
    made.destroy()


def count(backend: Any, name: str) -> int:
    """One of the counters of compiles."""
    return int(backend._served_by().plain().stats()["compiles"][name])


def compiled(backend: Any, kind: Any, source: str, stops: set[int] | None = None) -> Any:
    """A grammar that is ours."""
    grammar = backend.compile_grammar(kind, source, stops)
    assert type(grammar) is vllm_backend.ShmcacheGrammar
    return grammar


# What vLLM is


def test_the_release_is_the_one_that_was_read() -> None:
    assert wheels.version("vllm") == "0.33.0", "another release: read what changed, then change this line"
    assert vllm.__version__ == "0.33.0"


@pytest.mark.parametrize(
    ("ours", "base"),
    [
        (vllm_backend.ShmcacheGrammar, types.StructuredOutputGrammar),
        (vllm_backend.ShmcacheBackend, types.StructuredOutputBackend),
    ],
)
def test_every_abstract_method_is_there_with_its_parameters(ours: Any, base: Any) -> None:
    assert base.__abstractmethods__
    assert not ours.__abstractmethods__
    for name in base.__abstractmethods__:
        expected = list(inspect.signature(getattr(base, name)).parameters)
        assert list(inspect.signature(vars(ours)[name]).parameters) == expected, name


def test_the_backend_is_made_as_the_engines_own() -> None:
    assert list(inspect.signature(vllm_backend.ShmcacheBackend).parameters) == list(inspect.signature(STOCK).parameters)


def test_the_abstract_methods_are_the_ones_we_know() -> None:
    assert types.StructuredOutputGrammar.__abstractmethods__ == {
        *("accept_tokens", "validate_tokens", "rollback", "fill_bitmask", "is_terminated", "reset"),
    }
    assert types.StructuredOutputBackend.__abstractmethods__ == {
        *("compile_grammar", "allocate_token_bitmask", "destroy"),
    }
    assert {kind.name for kind in Kind} == {"JSON", "JSON_OBJECT", "REGEX", "GRAMMAR", "CHOICE", "STRUCTURAL_TAG"}
    assert list(inspect.signature(STOCK).parameters) == ["vllm_config", "tokenizer", "vocab_size"]


def test_the_class_is_looked_for_where_we_put_ours() -> None:
    """In these two modules and nowhere else."""
    root = wheels.home("vllm") / "vllm"
    places = {
        str(path.relative_to(root))
        for path in root.rglob("*.py")
        if "XgrammarBackend" in path.read_text(encoding="utf-8")
    }
    assert places == {
        "v1/structured_output/backend_xgrammar.py",
        "v1/structured_output/__init__.py",
        "entrypoints/generate/beam_search/offline.py",
    }
    assert "XgrammarBackend" not in vars(beams)  # imported when it is needed


# On and off


def test_the_plug_in_loader_binds_ours_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(2):
        monkeypatch.setattr(plugins, "plugins_loaded", False)
        plugins.load_general_plugins()
        assert stock.XgrammarBackend is manager_module.XgrammarBackend is vllm_backend.ShmcacheBackend
    assert vllm_backend.StockBackend is STOCK


@pytest.mark.parametrize("value", [None, "0", "", "true"])
def test_installed_and_switched_off_nothing_is_ours(monkeypatch: pytest.MonkeyPatch, value: str | None) -> None:
    monkeypatch.delenv("SHMCACHE_VLLM")
    if value is not None:
        monkeypatch.setenv("SHMCACHE_VLLM", value)
    engine_plugins.register_vllm()
    assert stock.XgrammarBackend is manager_module.XgrammarBackend is STOCK


@pytest.mark.parametrize("version", ["0.32.0", "0.34.0rc1", "1.0", "dev"])
def test_another_release_keeps_its_own(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, version: str
) -> None:
    monkeypatch.setattr(vllm, "__version__", version)
    engine_plugins.register_vllm()
    assert stock.XgrammarBackend is manager_module.XgrammarBackend is STOCK
    assert "keeps its own" in caplog.text


def test_what_another_plug_in_put_there_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    other = type("Other", (STOCK,), {})
    monkeypatch.setattr(manager_module, "XgrammarBackend", other)
    engine_plugins.register_vllm()
    assert (stock.XgrammarBackend, manager_module.XgrammarBackend) == (STOCK, other)


@pytest.mark.parametrize("what", ["manager", "tokenizer"])
def test_what_cannot_serve_leaves_everything_to_the_engine(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, namespace: str, what: str
) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise TypeError("not a tokenizer")

    if what == "manager":
        no_manager(monkeypatch, namespace)
    else:
        monkeypatch.setattr(vllm_backend, "vocabulary_of", refuse)
    made = vllm_backend.ShmcacheBackend(configuration(), tokenizer=TOKENS, vocab_size=WIDTH)
    with quietly():
        for _ in range(3):
            assert type(made.compile_grammar(Kind.REGEX, "ab", {STOP})) is stock.XgrammarGrammar
    assert caplog.text.count("instead of shmcache") == 1
    made.destroy()


# What is compiled


@pytest.mark.parametrize(
    ("kind", "source", "text"),
    [
        (Kind.JSON, SCHEMA, '{"a": "ab"}'),
        (Kind.JSON_OBJECT, "", '{"b": null}'),
        (Kind.REGEX, "(ab|null)+", "abnullab"),
        (Kind.GRAMMAR, 'root ::= "a" root | "b"', "aab"),
        (Kind.CHOICE, json.dumps(["ab", 'a"\n']), 'a"\n'),
        (
            Kind.STRUCTURAL_TAG,
            json.dumps(
                {
                    "structures": [{"begin": "<|tool|>", "schema": json.loads(SCHEMA), "end": "<|end_tool|>"}],
                    "triggers": ["<|tool|>"],
                }
            ),
            'b<|tool|>{"a": "b"}<|end_tool|>ab',
        ),
        (
            Kind.STRUCTURAL_TAG,
            json.dumps({"type": "structural_tag", "format": {"type": "const_string", "value": "<|tool|>"}}),
            "<|tool|>",
        ),
    ],
)
def test_every_kind_is_compiled_once_and_followed_as_by_the_engine(
    backend: Any, kind: Any, source: str, text: str
) -> None:
    before = count(backend, "succeeded")
    grammars = [compiled(backend, kind, source, {STOP}) for _ in range(2)]
    assert count(backend, "succeeded") == before + 1
    with quietly():
        theirs = STOCK(configuration(), tokenizer=TOKENS, vocab_size=WIDTH).compile_grammar(kind, source, {STOP})
    for grammar in (*grammars, theirs):
        for token in [*ids_of(TOKENS, text), STOP]:
            mask = backend.allocate_token_bitmask(2)
            grammar.fill_bitmask(mask, 1)
            assert token in allowed(mask[1])
            assert (mask[0] == -1).all()
            assert not grammar.is_terminated()
            assert grammar.accept_tokens("request", [token])
        assert grammar.is_terminated()
        assert grammar.accept_tokens("request", [STOP])  # nothing after the end
        assert grammar.validate_tokens([STOP]) == []


@pytest.mark.parametrize(
    ("kind", "source"), [(Kind.REGEX, "a[ab]{2}"), (Kind.JSON, SCHEMA), (Kind.GRAMMAR, 'root ::= "ab"+')]
)
def test_masks_are_those_of_the_engines_own_backend(backend: Any, kind: Any, source: str) -> None:
    with quietly():
        theirs = STOCK(configuration(), tokenizer=TOKENS, vocab_size=WIDTH).compile_grammar(kind, source, {STOP})
    ours = compiled(backend, kind, source, {STOP})
    for _ in range(12):
        masks = backend.allocate_token_bitmask(2)
        ours.fill_bitmask(masks, 0)
        theirs.fill_bitmask(masks, 1)
        assert allowed(masks[0]) == {token for token in allowed(masks[1]) if token < WIDTH}
        token = max(allowed(masks[0]))
        assert ours.accept_tokens("request", [token])
        assert theirs.accept_tokens("request", [token])
        if ours.is_terminated():
            break
    assert ours.is_terminated() == theirs.is_terminated()


def test_without_whitespace_it_is_compact(host: str) -> None:
    made = vllm_backend.ShmcacheBackend(configuration(disable_any_whitespace=True), tokenizer=TOKENS, vocab_size=WIDTH)
    grammar = compiled(made, Kind.JSON, SCHEMA)
    tokens = [ids_of(TOKENS, part)[0] for part in '{"a":"ab"}' if part]
    assert grammar.validate_tokens(tokens) == tokens
    spaced = [ids_of(TOKENS, part)[0] for part in '{"a": "ab"}']
    assert grammar.validate_tokens(spaced) == spaced[:5]
    made.destroy()


def test_what_we_refuse_goes_to_the_engines_own_and_is_logged_once(
    backend: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with quietly():
        for _ in range(3):
            grammar = backend.compile_grammar(Kind.GRAMMAR, 'start: "ab"', {STOP})
            assert type(grammar) is stock.XgrammarGrammar
    assert caplog.text.count("goes to vLLM's own backend") == 1
    # Both kinds live side by side, in one mask.
    mask = backend.allocate_token_bitmask(2)
    grammar.fill_bitmask(mask, 0)
    compiled(backend, Kind.REGEX, "b").fill_bitmask(mask, 1)
    assert allowed(mask[1]) == set(ids_of(TOKENS, "b"))


@pytest.mark.parametrize(
    ("kind", "source"), [(Kind.REGEX, "("), (Kind.GRAMMAR, "root ::= other"), (Kind.STRUCTURAL_TAG, "{}")]
)
def test_what_is_wrong_is_refused_as_by_the_engines_own(backend: Any, kind: Any, source: str) -> None:
    with quietly():
        theirs = STOCK(configuration(), tokenizer=TOKENS, vocab_size=WIDTH)
        with pytest.raises(Exception) as expected:  # noqa: PT011  (whatever the engine's own raises)
            theirs.compile_grammar(kind, source)
        with pytest.raises(type(expected.value)) as found:
            backend.compile_grammar(kind, source)
    assert str(found.value) == str(expected.value)


def test_a_failure_of_any_kind_is_the_grammars_own(backend: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise OSError("out of descriptors")

    monkeypatch.setattr(type(backend._served_by().plain()), "compile_regex", fail)
    with quietly():
        assert type(backend.compile_grammar(Kind.REGEX, "ab")) is stock.XgrammarGrammar
    compiled(backend, Kind.GRAMMAR, 'root ::= "ab"')


@pytest.mark.tekken
def test_a_mistral_tokenizer_has_its_own_width_and_real_bytes(host: str) -> None:
    """vLLM's own backend is given the texts of its tokens, in which parts of characters are replaced."""
    with quietly():
        from mistral_common.protocol.instruct.validator import ValidationMode
        from transformers.tokenization_mistral_common import MistralCommonBackend
        from vllm.tokenizers.mistral import MistralTokenizer

        path = str(_packaged_file("tekken_240911.json"))
        mistral = MistralTokenizer(MistralCommonBackend(tokenizer_path=path, mode=ValidationMode.test))
        made, theirs = (
            kind(configuration(), tokenizer=mistral, vocab_size=WIDTH) for kind in (vllm_backend.ShmcacheBackend, STOCK)
        )
    assert made.vocab_size == theirs.vocab_size == len(mistral.vocab)
    masks = made.allocate_token_bitmask(2)
    assert masks.shape == theirs.allocate_token_bitmask(2).shape
    grammar = compiled(made, Kind.REGEX, "[€]+")
    whole = mistral.encode("€", add_special_tokens=False)
    pieces = [mistral.tokenizer.num_special_tokens + byte for byte in "€".encode()]
    for tokens in (whole, pieces):
        assert grammar.validate_tokens([*tokens, mistral.eos_token_id]) == [*tokens, mistral.eos_token_id]
    grammar.fill_bitmask(masks, 0)
    assert {whole[0], pieces[0]} <= allowed(masks[0])
    assert not allowed(masks[0]) & set(mistral.all_special_ids)
    made.destroy()


# One request's way


def test_stop_tokens_are_those_of_the_request(backend: Any) -> None:
    [b] = ids_of(TOKENS, "b")
    one, other = (compiled(backend, Kind.REGEX, "a|ab", stops) for stops in ({STOP}, {b, WIDTH + 7, -1}))
    [a] = ids_of(TOKENS, "a")
    masks = backend.allocate_token_bitmask(2)
    for row, grammar in enumerate((one, other)):
        assert grammar.accept_tokens("request", [a])
        grammar.fill_bitmask(masks, row)
    assert allowed(masks[0]) == {STOP, b}
    assert allowed(masks[1]) == {b}
    assert one.accept_tokens("request", [b])
    assert not one.is_terminated()
    assert other.accept_tokens("request", [b])
    assert other.is_terminated()
    assert compiled(backend, Kind.REGEX, "a", set()).validate_tokens([a, STOP]) == [a, STOP]


def test_drafts_are_validated_taken_back_and_counted(backend: Any) -> None:
    grammar = compiled(backend, Kind.REGEX, "a{3}")
    [a], [b] = ids_of(TOKENS, "a"), ids_of(TOKENS, "b")
    assert grammar.validate_tokens([a, a, b, a]) == [a, a]
    assert grammar.validate_tokens([a, a, a, STOP, a]) == [a, a, a, STOP]
    assert not grammar.accept_tokens("request", [a, b])
    assert grammar.num_processed_tokens == 1  # what was accepted before stays so
    assert grammar.accept_tokens("request", [a, a, STOP, a])
    assert (grammar.num_processed_tokens, grammar.is_terminated()) == (4, True)
    grammar.rollback(2)
    assert (grammar.num_processed_tokens, grammar.is_terminated()) == (2, False)
    grammar.reset()
    assert grammar.num_processed_tokens == 0
    assert grammar.accept_tokens("request", [a, a, a, STOP])


# The manager of vLLM


class Request(SimpleNamespace):
    """The fields of a request that the structured-output manager touches."""

    use_structured_output = True


def request(name: str, **constraint: Any) -> Request:
    """One as vLLM's front end makes it: checked, and with the backend chosen."""
    outputs = parameters_module.StructuredOutputsParams(**constraint)
    outputs._backend = "xgrammar"
    parameters = SimpleNamespace(structured_outputs=outputs, all_stop_token_ids={STOP})
    structured = requests_module.StructuredOutputRequest.from_sampling_params(parameters)
    return Request(request_id=name, sampling_params=parameters, structured_output_request=structured)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """vLLM's manager, with three drafts a step, after the plug-in was loaded."""
    monkeypatch.setattr(manager_module, "cached_tokenizer_from_config", lambda model_config: TOKENS)
    engine_plugins.register_vllm()
    made = manager_module.StructuredOutputManager(configuration(drafts=3))
    yield made
    made.clear_backend()
    assert made.backend is None


def ready(engine: Any, *requests: Request) -> None:
    """Starts the compiles, and waits for them."""
    for one in requests:
        engine.grammar_init(one)
    for one in requests:
        one.structured_output_request._grammar.exception(timeout=60)
        assert one.structured_output_request.is_grammar_ready


def test_the_manager_fills_the_rows_of_drafts_and_goes_on(engine: Any) -> None:
    one, other = request("1", regex="ab{5}"), request("2", json=json.loads(SCHEMA))
    ready(engine, one, other)
    assert type(engine.backend) is vllm_backend.ShmcacheBackend
    [a], [b] = ids_of(TOKENS, "a"), ids_of(TOKENS, "b")
    assert engine.validate_tokens(one, [a, b, a, -1]) == [a, b]
    batch = {"1": one, "2": other}
    rows = torch.from_numpy(engine.grammar_bitmask(batch, ["1", "2"], {"1": [a, b, -1]}))
    assert rows.shape == (8, -(-WIDTH // 32))
    assert b not in allowed(rows[0])
    assert a in allowed(rows[0])
    assert allowed(rows[1]) == allowed(rows[2]) == {b}
    assert (rows[3] == -1).all()  # behind the padding
    assert ids_of(TOKENS, "{")[0] in allowed(rows[4])
    assert engine.accept_tokens(one, [a, b])
    assert not engine.accept_tokens(one, [a])
    assert engine.accept_tokens(one, [b] * 4 + [STOP])
    assert one.structured_output_request.grammar.is_terminated()
    again = engine.grammar_bitmask(batch, ["1"], {})
    assert (again[0] == -1).all()  # a request that has ended is free


def test_a_compile_that_fails_ends_its_request_alone(engine: Any) -> None:
    good, bad = request("1", regex="ab"), request("2", grammar="root ::= other")
    with quietly():
        ready(engine, good, bad)
    assert isinstance(bad.structured_output_request.grammar, Exception)
    assert type(good.structured_output_request.grammar) is vllm_backend.ShmcacheGrammar


def test_many_requests_of_one_grammar_are_compiled_once_by_the_pool(engine: Any) -> None:
    requests = [request(str(number), regex="(ab|b){7}") for number in range(32)]
    ready(engine, *requests)
    counts = engine.backend._served_by().plain().stats()["compiles"]
    ready(engine, *(request(str(number), regex="(ab|b){7}") for number in range(32)))
    assert engine.backend._served_by().plain().stats()["compiles"] == counts
    keys = {one.structured_output_request.grammar._matcher.grammar.key for one in requests}
    assert len(keys) == 1


def test_large_batches_are_filled_by_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manager_module, "cached_tokenizer_from_config", lambda model_config: TOKENS)
    engine_plugins.register_vllm()
    settings = configuration()
    settings.scheduler_config.max_num_seqs = 256
    made = manager_module.StructuredOutputManager(settings)
    batch = {str(number): request(str(number), regex="ab" if number % 2 else "b+") for number in range(200)}
    ready(made, *batch.values())
    rows = torch.from_numpy(made.grammar_bitmask(batch, list(batch), {}))
    expected = [{*ids_of(TOKENS, "b")}, {ids_of(TOKENS, "a")[0], *ids_of(TOKENS, "ab")}]
    assert [allowed(row) for row in rows] == expected * 100
    made.clear_backend()


def test_beam_search_makes_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    engine_plugins.register_vllm()
    [owner] = [
        kind for kind in vars(beams).values() if hasattr(kind, "_build_beam_sampling_params") and inspect.isclass(kind)
    ]
    source = inspect.getsource(beams)
    assert source.count("XgrammarBackend") == 2
    found = [name for name in vars(owner) if "init" in name and "structured" in name]
    assert found, "where beam search makes its backend has another name"
    outputs = request("1", regex="ab").sampling_params.structured_outputs
    searching = SimpleNamespace(
        llm_engine=SimpleNamespace(vllm_config=configuration()),
        model_config=SimpleNamespace(get_vocab_size=lambda: WIDTH),
    )
    made, key, mask = getattr(owner, found[0])(searching, outputs, TOKENS)
    assert type(made) is vllm_backend.ShmcacheBackend
    made.compile_grammar(*key).fill_bitmask(mask, 0)
    assert allowed(mask[0]) == {ids_of(TOKENS, "a")[0], *ids_of(TOKENS, "ab")}
    made.destroy()


def test_logging_is_ours(caplog: pytest.LogCaptureFixture, backend: Any) -> None:
    with caplog.at_level(logging.ERROR, logger="shmcache"):
        assert not compiled(backend, Kind.REGEX, "a").accept_tokens("the request", [STOP])
    assert "the request" in caplog.text
