"""The names of XGrammar on top of ours: what a user who switches by one import meets."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from typing import Any

import numpy as np
import pytest

from shmcache.compat import xgrammar
from shmcache.compat.xgrammar import matcher as compat_matcher
from shmcache.compat.xgrammar.exception import InvalidGrammarError, MisuseError, UnsupportedFeatureError
from shmcache.errors import LimitError, ShmCacheError, SourceError, UnsupportedError

TOKENS = [bytes([byte]) for byte in range(256)] + [b"true", b'{"', b"</s>"]
END = len(TOKENS) - 1


@pytest.fixture
def info() -> Any:
    return xgrammar.TokenizerInfo(TOKENS, stop_token_ids=[END])


@pytest.fixture
def compiler(info: Any) -> Any:
    return xgrammar.GrammarCompiler(info, cache_enabled=False)


@pytest.fixture
def numpy_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if torch were not installed."""
    monkeypatch.setattr(compat_matcher, "find_spec", lambda name: None)


def accepts(compiled: Any, text: str) -> bool:
    matcher = xgrammar.GrammarMatcher(compiled)
    return matcher.accept_string(text) and matcher.is_completed()


def allowed(matcher: Any, width: int = len(TOKENS)) -> set[int]:
    bitmask = np.zeros((1, -(-width // 32)), dtype=np.int32)
    assert matcher.fill_next_token_bitmask(bitmask)
    return set(range(width)) - set(xgrammar.testing._get_masked_tokens_from_bitmask(bitmask, width))


@pytest.mark.parametrize("name", xgrammar.__all__)
def test_every_name_is_there_and_stays(name: str) -> None:
    assert getattr(xgrammar, name) is getattr(xgrammar, name)
    assert name in dir(xgrammar)


@pytest.mark.parametrize("name", xgrammar.NOT_OFFERED)
def test_what_is_not_offered_says_so(name: str) -> None:
    with pytest.raises(UnsupportedFeatureError, match=name) as raised:
        getattr(xgrammar, name)("llama")
    assert raised.value.feature == name
    assert isinstance(raised.value, UnsupportedError)
    assert isinstance(raised.value, RuntimeError)


def test_other_names_are_no_attributes() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = xgrammar.no_such_name
    with pytest.raises(UnsupportedFeatureError, match=r"shmcache_workers\.huggingface"):
        _ = xgrammar.contrib


def test_importing_is_cheap() -> None:
    program = (
        "import sys, shmcache.compat.xgrammar; print([m for m in ('numpy', 'numba', 'torch') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert run.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("vocab_type", "written", "read"),
    [
        ("RAW", ["a", "é", b"\xff", "\u2581", "<0x0A>"], [b"a", "é".encode(), b"\xff", "\u2581".encode(), b"<0x0A>"]),
        ("BYTE_FALLBACK", ["a", "<0x0A>", "\u2581b\u2581", b"<0xFF>"], [b"a", b"\n", b" b ", b"\xff"]),
        ("BYTE_LEVEL", ["a", "\u0120b", "\u010a\u010a", "é", "日"], [b"a", b" b", b"\n\n", b"\xe9", "日".encode()]),
    ],
)
def test_encoded_vocabularies(vocab_type: str, written: list[Any], read: list[bytes]) -> None:
    info = xgrammar.TokenizerInfo(written, xgrammar.VocabType[vocab_type], stop_token_ids=0, add_prefix_space=True)
    assert info.decoded_vocab == read
    assert (info.stop_token_ids, info.special_token_ids, info.vocab_size) == ([0], [], len(read))
    assert info.vocab_type.name == vocab_type
    assert info.add_prefix_space
    for other in (
        xgrammar.TokenizerInfo.deserialize_json(info.serialize_json()),
        xgrammar.TokenizerInfo.from_vocab_and_metadata(written, info.dump_metadata()),
    ):
        assert other.vocabulary == info.vocabulary
        assert other.dump_metadata() == info.dump_metadata()


def test_stop_tokens_and_padding() -> None:
    info = xgrammar.TokenizerInfo([b"a", b"", b"</s>", b"<|endoftext|>", b"<|special|>"], vocab_size=7)
    assert (info.stop_token_ids, info.special_token_ids, info.vocab_size) == ([2, 3], [1, 5, 6], 7)
    compiled = xgrammar.GrammarCompiler(info, cache_enabled=False).compile_regex(r"a|<\|special\|>")
    # Special tokens are text, as they are spelt.
    assert allowed(xgrammar.GrammarMatcher(compiled), 7) == {0, 4}
    with pytest.raises(MisuseError, match="there are 3 tokens"):
        xgrammar.TokenizerInfo([b"a", b"b", b"c"], vocab_size=2)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("{", "InvalidJSONError"),
        ("{}", "DeserializeVersionError"),
        ("[]", "DeserializeVersionError"),
        ('{"__VERSION__": "v18"}', "DeserializeVersionError"),
        ('{"__VERSION__": "shmcache-1"}', "DeserializeFormatError"),
        ('{"__VERSION__": "shmcache-1", "kind": "KIND"}', "DeserializeFormatError"),
    ],
)
def test_what_cannot_be_read_back(text: str, error: str, info: Any) -> None:
    kinds = {
        "tokenizer_info": xgrammar.TokenizerInfo.deserialize_json,
        "grammar": xgrammar.Grammar.deserialize_json,
        "compiled_grammar": lambda text: xgrammar.CompiledGrammar.deserialize_json(text, info),
    }
    for kind, read in kinds.items():
        with pytest.raises(getattr(xgrammar, error)) as raised:
            read(text.replace("KIND", kind))
        assert isinstance(raised.value, RuntimeError)
        assert isinstance(raised.value, ShmCacheError)


def test_a_damaged_vocabulary_is_noticed(info: Any) -> None:
    fields = json.loads(info.serialize_json())
    fields["vocabulary"] = "AAAA"
    with pytest.raises(xgrammar.DeserializeFormatError):
        xgrammar.TokenizerInfo.deserialize_json(json.dumps(fields))


SCHEMA = {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"]}
TAG = {"type": "structural_tag", "format": {"type": "const_string", "value": "tag"}}

GRAMMARS = {
    "ebnf": (lambda: xgrammar.Grammar.from_ebnf('root ::= "a" | "b"'), "b", "c"),
    "json_schema": (lambda: xgrammar.Grammar.from_json_schema(SCHEMA, any_whitespace=False), '{"a": true}', '{"a":1}'),
    "regex": (lambda: xgrammar.Grammar.from_regex("[0-9]{2}"), "42", "4"),
    "structural_tag": (lambda: xgrammar.Grammar.from_structural_tag(TAG), "tag", "ta"),
    "builtin_json": (lambda: xgrammar.Grammar.builtin_json_grammar(), "[1, null]", "1"),
}


@pytest.mark.parametrize("kind", GRAMMARS)
def test_grammars(kind: str, compiler: Any, info: Any) -> None:
    make, whole, other = GRAMMARS[kind]
    grammar = make()
    again = xgrammar.Grammar.deserialize_json(grammar.serialize_json())
    assert again.source == grammar.source
    compiled = compiler.compile_grammar(again)
    assert accepts(compiled, whole)
    assert not accepts(compiled, other)
    assert compiled.grammar.source == grammar.source
    assert compiled.tokenizer_info is info
    assert compiled.memory_size_bytes > 0
    assert str(grammar)


def test_the_compiler_and_the_grammars_agree(compiler: Any) -> None:
    pairs = [
        (compiler.compile_grammar('root ::= "a" | "b"'), "ebnf"),
        (compiler.compile_json_schema(json.dumps(SCHEMA), any_whitespace=False), "json_schema"),
        (compiler.compile_json_schema(SCHEMA, any_whitespace=False), "json_schema"),
        (compiler.compile_regex("[0-9]{2}"), "regex"),
        (compiler.compile_structural_tag(json.dumps(TAG)), "structural_tag"),
        (compiler.compile_structural_tag(xgrammar.StructuralTag.from_json(TAG)), "structural_tag"),
        (compiler.compile_builtin_json_grammar(), "builtin_json"),
    ]
    for compiled, kind in pairs:
        expected = compiler.compile_grammar(GRAMMARS[kind][0]()).compiled
        assert compiled.compiled.key == expected.key


def test_concatenation_and_union(compiler: Any) -> None:
    parts = [make() for make, _, _ in GRAMMARS.values()]
    wholes = [whole for _, whole, _ in GRAMMARS.values()]
    parts[1] = xgrammar.Grammar.from_json_schema(SCHEMA)
    concatenated = compiler.compile_grammar(xgrammar.Grammar.concat(*parts))
    assert accepts(concatenated, "".join(wholes))
    assert not accepts(concatenated, "".join(wholes[:-1]))
    united = compiler.compile_grammar(xgrammar.Grammar.union(*parts))
    assert all(accepts(united, whole) for whole in wholes)
    assert not accepts(united, "".join(wholes[:2]))
    nested = xgrammar.Grammar.concat(xgrammar.Grammar.union(parts[0], parts[2]), parts[3])
    assert accepts(compiler.compile_grammar(nested), "atag")
    assert xgrammar.Grammar.union(parts[0]) is parts[0]


def test_parts_that_cannot_be_put_together() -> None:
    part = xgrammar.Grammar.from_regex("a")
    for other, feature in [
        (xgrammar.Grammar.from_json_schema(SCHEMA, indent=2), "any_whitespace|indent"),
        (xgrammar.Grammar.from_json_schema(SCHEMA, strict_mode=False), "strict_mode"),
        (xgrammar.Grammar.from_ebnf('other ::= "a"', root_rule_name="other"), "root"),
    ]:
        with pytest.raises(UnsupportedFeatureError, match=feature):
            xgrammar.Grammar.concat(part, other)
    with pytest.raises(MisuseError):
        xgrammar.Grammar.union()
    with pytest.raises(TypeError):
        xgrammar.Grammar.union(part, "a")


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda c: xgrammar.Grammar.from_ebnf("root ::= x"), InvalidGrammarError),
        (lambda c: c.compile_grammar("root ::= x"), InvalidGrammarError),
        (lambda c: xgrammar.Grammar.from_regex("("), InvalidGrammarError),
        (lambda c: xgrammar.Grammar.from_json_schema("{"), xgrammar.InvalidJSONError),
        (lambda c: xgrammar.Grammar.from_json_schema({"type": "foo"}), InvalidGrammarError),
        (lambda c: c.compile_json_schema("{"), xgrammar.InvalidJSONError),
        (lambda c: c.compile_json_schema(5), MisuseError),
        (lambda c: xgrammar.Grammar.from_structural_tag("{"), xgrammar.InvalidJSONError),
        (
            lambda c: xgrammar.Grammar.from_structural_tag({**TAG, "format": {"type": "no"}}),
            xgrammar.InvalidStructuralTagError,
        ),
        (lambda c: c.compile_structural_tag("[]"), xgrammar.InvalidStructuralTagError),
        (lambda c: c.compile_structural_tag(5), TypeError),
        (lambda c: c.compile_structural_tag(), TypeError),
        (lambda c: c.compile_structural_tag(TAG, structural_tag=TAG), TypeError),
        (lambda c: c.compile_structural_tag("a", "b"), TypeError),
        (lambda c: c.compile_grammar(5), MisuseError),
        (lambda c: c.compile_lark('start: "a"'), UnsupportedFeatureError),
        (lambda c: xgrammar.Grammar.from_lark('start: "a"'), UnsupportedFeatureError),
        (lambda c: xgrammar.Grammar.from_regex("a", print_converted_ebnf=True), UnsupportedFeatureError),
        (lambda c: xgrammar.Grammar.from_json_schema({}, print_converted_ebnf=True), UnsupportedFeatureError),
        (lambda c: c.compile_regex(r"(?<=a)b"), UnsupportedFeatureError),
        (lambda c: c.compile_regex("[ab]*a[ab]{30}"), LimitError),
        (lambda c: xgrammar.GrammarMatcher(5), MisuseError),
        (lambda c: xgrammar.GrammarCompiler(5), MisuseError),
        (lambda c: xgrammar.GrammarCompiler(xgrammar.TokenizerInfo(TOKENS), cache_limit_bytes=-2), MisuseError),
        (lambda c: xgrammar.BatchGrammarMatcher(0), MisuseError),
        (lambda c: xgrammar.set_max_recursion_depth(0), MisuseError),
    ],
)
def test_errors_are_of_both_kinds(call: Any, error: type[Exception], compiler: Any) -> None:
    with pytest.raises(error) as raised:
        call(compiler)
    if error is not TypeError:
        # Whoever catches XGrammar's errors catches these, and so does whoever catches ours.
        assert isinstance(raised.value, RuntimeError)
        assert isinstance(raised.value, ShmCacheError)


def test_an_error_keeps_its_place() -> None:
    with pytest.raises(SourceError) as raised:
        xgrammar.Grammar.from_ebnf('root ::= "a"\n  | x')
    assert (raised.value.line, raised.value.column) == (2, 5)
    with pytest.raises(xgrammar.InvalidStructuralTagError) as tag:
        xgrammar.Grammar.from_structural_tag({**TAG, "format": {"type": "optional", "content": {"type": "no"}}})
    assert tag.value.pointer == "/format/content/type"


def test_structural_tags_as_objects() -> None:
    tags = xgrammar.structural_tag
    text = tags.AnyTextFormat(excludes=["END"], max_chars=7)
    assert tags.AnyTextFormat.model_validate_json(text.model_dump_json()) == text
    assert tags.StructuralTag.from_json(tags.StructuralTag(format=text).model_dump_json()).format == text.model_dump()
    inner = tags.StructuralTag(format=tags.DispatchFormat(rules=[("a", text)])).model_dump()
    assert inner["format"]["rules"] == [["a", text.model_dump()]]
    with pytest.raises(xgrammar.InvalidStructuralTagError, match="AnyTextFormat"):
        tags.AnyTextFormat.model_validate({"no_such_field": 1})
    for wrong, error in [
        ("{", xgrammar.InvalidJSONError),
        ("[]", xgrammar.InvalidStructuralTagError),
        ({}, xgrammar.InvalidStructuralTagError),
        ({**TAG, "type": "other"}, xgrammar.InvalidStructuralTagError),
    ]:
        with pytest.raises(error):
            tags.StructuralTag.from_json(wrong)
    item = tags.StructuralTagItem(begin="<a>", schema='{"type": "null"}', end="</a>")
    legacy = xgrammar.Grammar.from_structural_tag([item], ["<a"])
    new = xgrammar.Grammar.from_structural_tag(tags.StructuralTag.from_legacy_structural_tag([item], ["<a"]))
    for text in ("x<a>null</a>y", "", "<b>"):
        for grammar in (legacy, new):
            assert xgrammar.testing._is_grammar_accept_string(grammar, text)
    assert not xgrammar.testing._is_grammar_accept_string(new, "<a>1</a>")


def test_a_private_cache_and_its_limit(info: Any) -> None:
    compiler = xgrammar.GrammarCompiler(info, cache_limit_bytes=1 << 24)
    assert (compiler.is_shared, compiler.cache_limit_bytes) == (False, 1 << 24)
    first = compiler.compile_regex("a")
    assert compiler.compile_regex("a").compiled is first.compiled
    assert compiler.get_cache_size_bytes() == first.memory_size_bytes
    compiler.clear_cache()
    assert compiler.get_cache_size_bytes() == 0
    assert compiler.compile_regex("a").compiled is not first.compiled
    narrow = xgrammar.GrammarCompiler(info, cache_limit_bytes=first.memory_size_bytes)
    kept = [narrow.compile_regex(pattern).compiled for pattern in "ab"]
    assert narrow.get_cache_size_bytes() <= narrow.cache_limit_bytes
    assert narrow.compile_regex("b").compiled is kept[1]
    assert narrow.compile_regex("a").compiled is not kept[0]


def test_without_a_cache_nothing_is_kept(compiler: Any) -> None:
    assert compiler.compile_regex("a").compiled is not compiler.compile_regex("a").compiled
    assert (compiler.get_cache_size_bytes(), compiler.is_shared) == (0, False)
    compiler.clear_cache()


@pytest.fixture
def shared(info: Any, namespace: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("SHMCACHE_NAMESPACE", namespace)
    return xgrammar.GrammarCompiler(info)


def test_the_shared_cache(shared: Any, info: Any) -> None:
    assert shared.is_shared
    compiled = [
        shared.compile_json_schema(SCHEMA),
        shared.compile_grammar('root ::= "a"'),
        shared.compile_regex("a"),
        shared.compile_structural_tag(TAG),
        shared.compile_builtin_json_grammar(),
    ]
    assert all(one.compiled.generation > 0 for one in compiled)
    assert shared.get_cache_size_bytes() > 0
    other = xgrammar.GrammarCompiler(info)
    for one in compiled:
        assert other.compile_grammar(one.grammar).compiled.key == one.compiled.key
        assert xgrammar.CompiledGrammar.deserialize_json(one.serialize_json(), info).compiled.key == one.compiled.key
    with pytest.raises(xgrammar.InvalidJSONError):
        shared.compile_json_schema("{")
    with pytest.raises(xgrammar.InvalidStructuralTagError):
        shared.compile_structural_tag({**TAG, "format": {}})
    with pytest.raises(xgrammar.DeserializeFormatError):
        xgrammar.CompiledGrammar.deserialize_json(compiled[0].serialize_json(), xgrammar.TokenizerInfo([b"a", b"b"]))
    shared.clear_cache()
    assert shared.get_cache_size_bytes() == 0


def test_without_a_manager_a_compiler_keeps_its_own(
    info: Any, namespace: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("SHMCACHE_NAMESPACE", namespace)
    monkeypatch.setattr(xgrammar.compiler, "connect", lambda vocabulary: _connect(vocabulary, autostart=False))
    compiler = xgrammar.GrammarCompiler(info)
    assert not compiler.is_shared
    assert "its own process" in caplog.text
    assert compiler.compile_regex("a").compiled is compiler.compile_regex("a").compiled


def _connect(vocabulary: Any, *, autostart: bool) -> Any:
    from shmcache.client import connect

    return connect(vocabulary, autostart=autostart)


def test_a_matcher(compiler: Any, info: Any) -> None:
    matcher = xgrammar.GrammarMatcher(compiler.compile_grammar('root ::= "t" ("rue" | "o")'), default_temperature=0.5)
    assert allowed(matcher) == {ord("t"), TOKENS.index(b"true")}
    assert not matcher.accept_token(ord("x"))
    assert not matcher.accept_token(10_000)
    assert matcher.accept_token(ord("t"), debug_print=False)
    fork = matcher.fork()
    assert fork.accept_string("rue")
    assert fork.is_completed()
    assert allowed(fork) == {END}
    assert fork.accept_token(END)
    assert fork.is_terminated()
    with pytest.raises(MisuseError, match="ended"):
        fork.fill_next_token_bitmask(np.zeros((1, 9), dtype=np.int32))
    assert not fork.accept_token(ord("t"))
    fork.rollback(2)
    assert allowed(fork) == allowed(matcher) == {ord("r"), ord("o")}
    fork.reset()
    assert allowed(fork) == {ord("t"), TOKENS.index(b"true")}
    assert (matcher.temperature, fork.temperature, matcher.get_captures()) == (0.5, 0.5, [])
    assert (matcher.max_rollback_tokens, matcher.stop_token_ids) == (-1, [END])
    matcher.accept_string("r")
    assert matcher.find_jump_forward_string() == "ue"
    assert matcher.find_jump_forward_tokens() == [ord("u"), ord("e")]
    for wrong in (lambda: matcher.rollback(9), lambda: matcher.fill_next_token_bitmask(np.zeros((1, 1), np.int32))):
        with pytest.raises(RuntimeError):
            wrong()
    with pytest.warns(DeprecationWarning, match="of no effect"):
        xgrammar.GrammarMatcher(compiler.compile_regex("a"), max_rollback_tokens=3)


def test_termination_without_a_stop_token(compiler: Any) -> None:
    matcher = xgrammar.GrammarMatcher(compiler.compile_regex("ab*"), terminate_without_stop_token=True)
    assert not matcher.is_terminated()
    assert matcher.accept_string("a")
    assert matcher.is_terminated()
    assert allowed(matcher) == allowed(matcher.fork()) == set()


def test_a_draft_tree(compiler: Any) -> None:
    matcher = xgrammar.GrammarMatcher(compiler.compile_regex("ab"), terminate_without_stop_token=True)
    tree = (np.array([1, -1]), np.array([-1, -1]), np.array([0, ord("a")]))
    bitmask, temperatures = np.zeros((2, 9), dtype=np.int32), np.zeros(2, dtype=np.float32)
    assert matcher.traverse_draft_tree(*tree, bitmask, temperatures=temperatures)
    assert temperatures.tolist() == [-1, -1]
    assert bitmask[1, ord("b") >> 5] == 1 << (ord("b") & 31)
    warm = xgrammar.GrammarMatcher(compiler.compile_regex("ab"), default_temperature=1.0)
    with pytest.raises(UnsupportedFeatureError, match="temperatures"):
        warm.traverse_draft_tree(*tree, bitmask, temperatures=temperatures)


def test_batches(compiler: Any) -> None:
    compiled = compiler.compile_regex("a[bc]")
    matchers = [xgrammar.GrammarMatcher(compiled, default_temperature=heat) for heat in (None, 0.5)]
    batch = xgrammar.BatchGrammarMatcher(max_threads=2)
    assert batch.batch_accept_token(matchers, [ord("a"), ord("b")]) == [True, False]
    assert batch.batch_accept_string(matchers, ["b", b"a"]) == [True, True]
    bitmask = np.zeros((3, 9), dtype=np.int32)
    batch.batch_fill_next_token_bitmask(matchers, bitmask, [2, 0])
    assert bitmask[2, END >> 5] == 1 << (END & 31)
    assert bitmask[0, ord("b") >> 5] == 0b1100
    assert not bitmask[1].any()
    temperatures = np.zeros(3, dtype=np.float32)
    batch.batch_fill_temperature(matchers, temperatures, [2, 0])
    assert temperatures.tolist() == [0.5, 0.0, -1.0]
    batch.batch_rollback(matchers, [2, 1])
    assert all(allowed(one) == {ord("a")} for one in matchers)
    matchers[0].accept_string("ab")
    matchers[0].accept_token(END)
    for wrong in (
        lambda: batch.batch_accept_token(matchers, [1]),
        lambda: batch.batch_rollback(matchers, 9),
        lambda: batch.batch_fill_next_token_bitmask(matchers, bitmask),
        lambda: batch.batch_fill_temperature(matchers, temperatures, [3, 0]),
    ):
        with pytest.raises(RuntimeError):
            wrong()


@pytest.mark.usefixtures("numpy_only")
def test_bitmasks_of_numpy() -> None:
    assert xgrammar.get_bitmask_shape(2, 33) == (2, 2)
    bitmask = xgrammar.allocate_token_bitmask(2, 40)
    assert bitmask.dtype == np.int32
    assert (bitmask == -1).all()
    bitmask[:] = xgrammar.testing.bool_mask_to_bitmask(np.arange(40) % 3 == 0)
    assert np.flatnonzero(xgrammar.testing.bitmask_to_bool_mask(bitmask[0], 40)).tolist() == list(range(0, 40, 3))
    logits = np.zeros((2, 40), dtype=np.float32)
    xgrammar.apply_token_bitmask_inplace(logits, bitmask, indices=[1])
    assert not logits[0].any()
    assert np.flatnonzero(logits[1] == 0).tolist() == list(range(0, 40, 3))
    xgrammar.apply_token_bitmask_inplace(logits[0], bitmask[0], vocab_size=5)
    assert np.flatnonzero(logits[0]).tolist() == [1, 2, 4]
    xgrammar.reset_token_bitmask(bitmask)
    assert (bitmask == -1).all()
    bitmask[0] = 0
    bitmask[0, 1] = 1
    assert xgrammar.testing._is_single_token_bitmask(bitmask, 40) == (True, 32)
    assert xgrammar.testing._is_single_token_bitmask(bitmask, 40, 1) == (False, -1)


def test_bitmasks_that_do_not_fit() -> None:
    logits, bitmask = np.zeros((2, 64), dtype=np.float32), np.full((1, 2), -1, dtype=np.int32)
    wrong: list[tuple[Any, Any, dict[str, Any]]] = [
        (logits, bitmask, {}),
        (logits, bitmask, {"indices": [1]}),
        (logits, bitmask, {"indices": [-1]}),
        (logits, bitmask, {"indices": [0], "vocab_size": 65}),
        (logits, bitmask, {"indices": [0], "backend": "abacus"}),
        (logits[:1], bitmask.astype(np.int64), {}),
        (logits[0], bitmask, {}),
    ]
    for one, other, options in wrong:
        with pytest.raises(MisuseError):
            xgrammar.apply_token_bitmask_inplace(one, other, **options)
    with pytest.warns(UserWarning, match="beyond the 32"):
        xgrammar.apply_token_bitmask_inplace(logits, np.zeros((2, 1), dtype=np.int32))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        xgrammar.apply_token_bitmask_inplace(logits[:1], bitmask, vocab_size=64)


def test_depths_of_recursion() -> None:
    before = xgrammar.get_max_recursion_depth()
    with xgrammar.max_recursion_depth(500):
        assert xgrammar.get_max_recursion_depth() == 500
    assert xgrammar.get_max_recursion_depth() == before
    assert xgrammar.get_serialization_version().startswith("shmcache")


def test_whether_a_grammar_accepts_a_string() -> None:
    assert xgrammar.testing._is_grammar_accept_string('root ::= "ab"', "ab")
    assert not xgrammar.testing._is_grammar_accept_string('root ::= "ab"', "a")
    assert xgrammar.testing._is_grammar_accept_string('root ::= "ab"', "a", require_termination=False)
