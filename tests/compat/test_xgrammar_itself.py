"""XGrammar itself beside our names: the same signatures, and the same answers where its users can tell."""

from __future__ import annotations

import dataclasses
import inspect
from importlib.util import find_spec
from typing import Any

import pytest

from shmcache.compat import xgrammar as ours

pytestmark = pytest.mark.skipif(
    find_spec("xgrammar") is None, reason="XGrammar is not installed: pip install -e '.[differential]'"
)

CLASSES = ["BatchGrammarMatcher", "CompiledGrammar", "Grammar", "GrammarCompiler", "GrammarMatcher", "TokenizerInfo"]
FUNCTIONS = [
    "allocate_token_bitmask",
    "apply_token_bitmask_inplace",
    "get_bitmask_shape",
    "get_max_recursion_depth",
    "get_serialization_version",
    "max_recursion_depth",
    "reset_token_bitmask",
    "set_max_recursion_depth",
]
NOT_CLASSES_OF_USERS = {"contrib", "hf", "base", "builtin_structural_tag", "load_binding", "kernels", "compiler"}
NOT_CLASSES_OF_USERS |= {"grammar", "matcher", "tokenizer_info", "openai_tool_call_schema", "tvm_ffi_binding"}

TAG = {"type": "structural_tag", "format": {"type": "const_string", "value": "tag"}}


@pytest.fixture(scope="module")
def theirs() -> Any:
    import xgrammar

    return xgrammar


def parameters(function: Any) -> list[tuple[str, Any, Any]]:
    found = inspect.signature(function).parameters.values()
    return [(one.name, getattr(one.default, "value", one.default), one.kind) for one in found]


def public(owner: Any) -> dict[str, Any]:
    return {name: value for name, value in vars(owner).items() if not name.startswith("_") or name == "__init__"}


def test_every_public_name_is_offered_or_refused(theirs: Any) -> None:
    names = set(theirs.__all__) - {"hf"}
    assert names <= {*ours.__all__, *ours.NOT_OFFERED, "bitmask_dtype"}
    modules = {name for name in dir(theirs) if inspect.ismodule(getattr(theirs, name))}
    assert modules - NOT_CLASSES_OF_USERS <= {"config", "exception", "structural_tag", "testing"}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_take_the_same(name: str, theirs: Any) -> None:
    assert parameters(getattr(ours, name)) == parameters(getattr(theirs, name))


@pytest.mark.parametrize("name", CLASSES)
def test_methods_take_the_same(name: str, theirs: Any) -> None:
    one, other = public(getattr(ours, name)), public(getattr(theirs, name))
    own = {"check_next_token", "compiled", "is_shared", "matcher", "source", "vocabulary"}
    assert one.keys() - own - {"__init__"} == other.keys() - {"__init__"}
    # What is made by other classes only is made there as they like.
    made = {"__init__"} & one.keys() & other.keys() if name not in ("CompiledGrammar", "Grammar") else set()
    for member in made | (one.keys() & other.keys()) - {"__init__"}:
        mine, their = one[member], other[member]
        assert type(mine) is type(their), member
        if callable(mine):
            assert parameters(mine) == parameters(their), member


def test_structural_tags_have_the_same_fields(theirs: Any) -> None:
    names = [name for name in theirs.structural_tag.__all__ if name not in ("Format", "StructuralTagItem")]
    assert len(names) > 15
    names += ["RepeatFormat", "DispatchFormat", "TokenDispatchFormat", "TokenTriggeredTagsFormat"]
    for name in names:
        fields = {one.name: one for one in dataclasses.fields(getattr(ours.structural_tag, name))}
        model = getattr(theirs.structural_tag, name).model_fields
        assert fields.keys() == model.keys(), name
        for field, one in fields.items():
            is_required = one.default is dataclasses.MISSING and one.default_factory is dataclasses.MISSING
            assert is_required == model[field].is_required(), (name, field)
            if not is_required:
                made = one.default if one.default_factory is dataclasses.MISSING else one.default_factory()
                assert made == model[field].get_default(call_default_factory=True), (name, field)


def test_structural_tags_dump_the_same(theirs: Any) -> None:
    def tag(module: Any) -> Any:
        inner = module.SequenceFormat(
            elements=[module.ConstStringFormat(value="é"), module.AnyTextFormat(excludes=["x"])]
        )
        begin = module.TokenFormat(token=5)
        one = module.TagFormat(begin="<a>", content=module.JSONSchemaFormat(json_schema={"type": "null"}), end=["</a>"])
        triggered = module.TriggeredTagsFormat(triggers=["<a"], tags=[one], at_least_one=True)
        tokens = module.TagFormat(begin=begin, content=inner, end="")
        dispatch = module.DispatchFormat(rules=[("x", module.RegexFormat(pattern="a"))], loop=False)
        return module.StructuralTag(format=module.OrFormat(elements=[triggered, tokens, dispatch]))

    assert tag(ours.structural_tag).model_dump_json() == tag(theirs.structural_tag).model_dump_json()
    item = {"begin": "<a>", "schema": {"type": "null"}, "end": "</a>"}
    legacy = [
        module.StructuralTag.from_legacy_structural_tag([module.StructuralTagItem(**item)], ["<a"]).model_dump_json()
        for module in (ours, theirs)
    ]
    assert legacy[0] == legacy[1]


def test_their_objects_are_understood(theirs: Any) -> None:
    assert ours.Grammar.from_structural_tag(theirs.StructuralTag.from_json(TAG)).source == (
        ours.Grammar.from_structural_tag(TAG).source
    )


@pytest.mark.parametrize(
    "arguments",
    [
        {"encoded_vocab": ["a", "", "</s>", "<0x0A>", "\u2581c", "<|endoftext|>"], "vocab_size": 10},
        {"encoded_vocab": ["a", "\u0120b", "\u010a\u010a", "é"], "stop_token_ids": [1]},
        {"encoded_vocab": [b"a", b"\xff", "é"], "stop_token_ids": 0, "add_prefix_space": True},
    ],
)
@pytest.mark.parametrize("vocab_type", ["RAW", "BYTE_FALLBACK", "BYTE_LEVEL"])
def test_tokenizer_infos_say_the_same(arguments: dict[str, Any], vocab_type: str, theirs: Any) -> None:
    one, other = (
        module.TokenizerInfo(vocab_type=module.VocabType[vocab_type], **arguments) for module in (ours, theirs)
    )
    assert one.decoded_vocab == other.decoded_vocab
    assert one.special_token_ids == other.special_token_ids
    assert one.dump_metadata() == other.dump_metadata()


@pytest.mark.parametrize(
    "call",
    [
        lambda x, c: x.Grammar.from_ebnf("root ::= x"),
        lambda x, c: x.Grammar.from_regex("("),
        lambda x, c: x.Grammar.from_json_schema({"type": "foo"}),
        lambda x, c: x.Grammar.from_structural_tag("{"),
        lambda x, c: x.Grammar.from_structural_tag({**TAG, "format": {"type": "no"}}),
        lambda x, c: x.Grammar.deserialize_json("{"),
        lambda x, c: x.Grammar.deserialize_json("{}"),
        lambda x, c: c.compile_structural_tag(5),
        lambda x, c: c.compile_grammar(5),
        lambda x, c: c.compile_json_schema(5),
        lambda x, c: x.GrammarMatcher(5),
        lambda x, c: x.GrammarMatcher(c.compile_regex("a")).rollback(1),
        lambda x, c: x.BatchGrammarMatcher(0),
        lambda x, c: x.set_max_recursion_depth(0),
        lambda x, c: x.GrammarCompiler(x.TokenizerInfo(["a"]), cache_limit_bytes=-5),
    ],
)
def test_who_catches_their_errors_catches_ours(call: Any, theirs: Any) -> None:
    caught = []
    for module in (theirs, ours):
        compiler = module.GrammarCompiler(module.TokenizerInfo(["a", "</s>"]), cache_enabled=False)
        with pytest.raises((RuntimeError, ValueError, TypeError)) as raised:
            call(module, compiler)
        caught.append({base.__name__ for base in type(raised.value).__mro__})
    assert caught[0] <= caught[1]


JSON_TEXTS = ["6", '"a"', "true", "[1]", "{}", '{"a": [1, 2.5e3, null, "\\u0041\\n"]}', "[ ]", '{ "a" : 1 }', "[1 ,2]"]
JSON_TEXTS += [
    '{"a":1}\n',
    " {}",
    "[1.0,-0]",
    "[\t1]",
    '{"a":1,"a":2}',
    '["\x7f"]',
    '["\n"]',
    "[1,\n 2]",
    '["é"]',
    "[1",
    "[01]",
]


def test_json_as_such_is_the_same(theirs: Any) -> None:
    answers = []
    for module in (ours, theirs):
        grammar = module.Grammar.builtin_json_grammar()
        answers.append([module.testing._is_grammar_accept_string(grammar, text) for text in JSON_TEXTS])
    assert answers[0] == answers[1]
    assert len(set(answers[0])) == 2


def test_generated_masks_are_the_same(theirs: Any) -> None:
    vocabulary = [bytes([byte]) for byte in range(256)] + [b'{"', b'": ', b"true", b"</s>"]
    schema = {"type": "object", "properties": {"a": {"type": "boolean"}, "b": {"enum": [1, "x"]}}, "required": ["a"]}
    rows = []
    for module in (ours, theirs):
        info = module.TokenizerInfo(vocabulary, stop_token_ids=[259])
        compiler = module.GrammarCompiler(info, cache_enabled=False)
        matcher = module.GrammarMatcher(compiler.compile_json_schema(schema, any_whitespace=False))
        seen = []
        for token in [256, 97, 257, 258, *b', "b": 1}']:
            bitmask = module.allocate_token_bitmask(1, info.vocab_size)
            matcher.fill_next_token_bitmask(bitmask)
            seen.append(module.testing._get_masked_tokens_from_bitmask(bitmask, info.vocab_size))
            assert matcher.accept_token(token)
        assert matcher.is_completed()
        rows.append(seen)
    assert rows[0] == rows[1]


def test_logits_are_masked_the_same(theirs: Any) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    generator = torch.Generator().manual_seed(0)
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        logits = torch.randn((3, 70), generator=generator).to(dtype)
        bitmask = torch.randint(-(2**31), 2**31, (3, 3), dtype=torch.int64, generator=generator).to(torch.int32)
        for options in ({}, {"indices": [0, 2]}, {"vocab_size": 50}):
            one, other = logits.clone(), logits.clone()
            ours.apply_token_bitmask_inplace(one, bitmask, **options)
            theirs.apply_token_bitmask_inplace(other, bitmask, **options)
            assert torch.equal(one, other)
    flags = torch.randint(0, 2, (2, 64), generator=generator).bool()
    assert torch.equal(ours.testing.bool_mask_to_bitmask(flags), theirs.testing.bool_mask_to_bitmask(flags))
    bitmask = ours.allocate_token_bitmask(2, 64)
    assert torch.equal(bitmask, theirs.allocate_token_bitmask(2, 64))
    assert ours.bitmask_dtype == theirs.bitmask_dtype
