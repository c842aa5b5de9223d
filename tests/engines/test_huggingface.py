"""Constrained generation with ``transformers``: real ``generate``, a real tokenizer, a model that knows nothing."""

from __future__ import annotations

import gc
import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shmcache.errors import UnsupportedError
from shmcache.matcher.matcher import GrammarMatcher
from shmcache.private import compile_json_schema, compile_regex
from shmcache.vocabulary.vocabulary import Vocabulary

pytestmark = [
    pytest.mark.skipif(
        find_spec("transformers") is None or find_spec("torch") is None,
        reason="transformers or torch is not installed: pip install -e '.[huggingface-generate]'",
    ),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"),
]

SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 8}, "ok": {"type": "boolean"}},
    "required": ["name"],
}
GENERATIONS = 20
"""Of each kind; ``python -m tests.engines.generate`` makes more."""


@pytest.fixture(scope="module")
def bench() -> Any:
    from tests.engines.generate import Bench

    return Bench()


@pytest.fixture
def grammar(bench: Any) -> Any:
    return compile_json_schema(SCHEMA, bench.vocabulary, any_whitespace=False)


def processor(*arguments: Any, **options: Any) -> Any:
    from shmcache_workers.huggingface import LogitsProcessor

    return LogitsProcessor(*arguments, **options)


def inputs(bench: Any, texts: list[str]) -> Any:
    from tests.engines.tiny_model import prompts

    return prompts(bench.tokenizer, texts)


def generate(bench: Any, texts: list[str], processors: list[Any], **options: Any) -> list[str]:
    """The generated texts; each has ended."""
    given = inputs(bench, texts)
    options = {"max_new_tokens": 100, "do_sample": False, **options}
    output = bench.model.generate(**given, logits_processor=processors, **options)
    found = []
    for row in output[:, given["input_ids"].shape[1] :].tolist():
        assert bench.tokenizer.eos_token_id in row
        end = row.index(bench.tokenizer.eos_token_id)
        # Behind the end there is padding, for which beam search takes the end where the padding token is 0.
        assert set(row[end + 1 :]) <= {bench.tokenizer.pad_token_id, bench.tokenizer.eos_token_id}
        found.append(bench.tokenizer.decode(row[:end]))
    return found


def is_instance(text: str) -> bool:
    value = json.loads(text)
    return isinstance(value, dict) and value.keys() <= {"name", "ok"} and len(value["name"]) <= 8


def test_without_the_cache_process(bench: Any) -> None:
    outcome = bench.without_cache(GENERATIONS)
    assert (outcome.valid + outcome.cut, outcome.wrong) == (GENERATIONS, [])


def test_with_the_cache_process(bench: Any, namespace: str) -> None:
    outcome = bench.with_cache(GENERATIONS, namespace)
    assert (outcome.valid + outcome.cut, outcome.wrong) == (GENERATIONS, [])


def test_with_the_manager_killed_midway(bench: Any, namespace: str) -> None:
    outcome = bench.with_killed_manager(GENERATIONS, namespace)
    assert (outcome.valid + outcome.cut, outcome.wrong) == (GENERATIONS, [])


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"do_sample": True},
        {"do_sample": True, "num_return_sequences": 3},
        {"num_beams": 4},
        {"num_beams": 4, "num_return_sequences": 3},
        {"num_beams": 3, "do_sample": True, "num_return_sequences": 2},
    ],
    ids=str,
)
def test_one_processor_serves_every_kind_of_generation(options: dict[str, Any], bench: Any, grammar: Any) -> None:
    one = processor(grammar)
    for texts in (["the quick", "lazy"], ["number 1"]):
        found = generate(bench, texts, [one], **options)
        assert len(found) == len(texts) * options.get("num_return_sequences", 1)
        assert all(map(is_instance, found)), found
    gc.collect()
    assert one._generations == {}


def test_each_prompt_its_grammar(bench: Any, grammar: Any) -> None:
    digits = compile_regex("[0-9]{3}", bench.vocabulary)
    for options in ({}, {"num_beams": 3}, {"do_sample": True, "num_return_sequences": 2}):
        found = generate(bench, ["one", "the other"], [processor([grammar, digits])], **options)
        half = len(found) // 2
        assert all(map(is_instance, found[:half]))
        assert all(text.isdigit() and len(text) == 3 for text in found[half:])


def test_a_free_prompt_gets_the_scores_as_they_are(bench: Any, grammar: Any) -> None:
    import torch

    scores = torch.randn((2, 640))
    masked = processor([None, grammar])(torch.tensor([[5, 6], [7, 8]]), scores)
    assert torch.equal(masked[0], scores[0])
    assert torch.isinf(masked[1]).any()


def test_beams_hold_what_a_search_by_hand_finds(bench: Any) -> None:
    """Beams of a language of four texts, against the probabilities of all four."""
    import torch

    grammar = compile_regex("(X|Y)(Q|K)", bench.vocabulary)
    given = inputs(bench, ["the"])
    output = bench.model.generate(
        **given,
        logits_processor=[processor(grammar)],
        num_beams=8,
        num_return_sequences=4,
        max_new_tokens=5,
        length_penalty=0.0,
        output_scores=True,
        return_dict_in_generate=True,
    )
    texts = [bench.tokenizer.decode(row, skip_special_tokens=True)[3:] for row in output.sequences]
    assert set(texts) == {"XQ", "XK", "YQ", "YK"}
    for row, score in zip(output.sequences, output.sequences_scores, strict=True):
        tokens = [token for token in row.tolist() if token != bench.tokenizer.pad_token_id]
        with torch.no_grad():
            log_probabilities = bench.model(torch.tensor([tokens])).logits[0].log_softmax(-1)
        start = given["input_ids"].shape[1]
        expected = sum(log_probabilities[at - 1, tokens[at]].item() for at in range(start, len(tokens)))
        assert score.item() == pytest.approx(expected, abs=1e-3)


def test_drafts_are_tried_and_taken_back(bench: Any, grammar: Any) -> None:
    plain = generate(bench, ["the quick brown fox"], [processor(grammar)])
    one = processor(grammar)
    assert generate(bench, ["the quick brown fox"], [one], prompt_lookup_num_tokens=3) == plain
    assert generate(bench, ["the quick brown fox"], [one], assistant_model=bench.model) == plain


def test_a_processor_inside_another(bench: Any, grammar: Any) -> None:
    from transformers import LogitsProcessor

    one = processor(grammar)

    class Around(LogitsProcessor):  # type: ignore[misc]
        def __call__(self, input_ids: Any, scores: Any) -> Any:
            return one(input_ids, scores) * 1.0

    plain = generate(bench, ["the quick brown fox"], [one])
    for _ in range(2):
        assert generate(bench, ["the quick brown fox"], [Around()], prompt_lookup_num_tokens=3) == plain
    gc.collect()
    assert one._by_hand is None


def test_an_assistant_drafts_in_the_same_grammar(bench: Any, grammar: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.engines.tiny_model import make_model

    calls = []
    forward = bench.model.forward
    monkeypatch.setattr(bench.model, "forward", lambda *given, **named: calls.append(1) or forward(*given, **named))
    [text] = generate(bench, ["the quick brown fox"], [processor(grammar)])
    plain_calls = len(calls)
    calls.clear()
    same = make_model(bench.tokenizer)
    assert generate(bench, ["the quick brown fox"], [processor(grammar)], assistant_model=same) == [text]
    # A model that drafts for its like is always right, unless it begins the text anew in each draft.
    assert len(calls) <= plain_calls / 2


def masks_by_hand(one: Any, rows: list[list[int]], width: int = 640) -> list[set[int]]:
    import torch

    masked = one(torch.tensor(rows), torch.zeros((len(rows), width)))
    return [set(torch.nonzero(row == 0).flatten().tolist()) for row in masked]


def expected_masks(grammar: Any, generated: list[list[int]]) -> list[set[int]]:
    """By a matcher that begins anew for every row."""
    masks = []
    for tokens in generated:
        matcher = GrammarMatcher(grammar)
        assert all(map(matcher.accept_token, tokens))
        row = np.zeros(20, dtype=np.int32)
        matcher.fill_next_token_bitmask(row)
        masks.append(set(np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).tolist()))
    return masks


def test_rows_are_found_by_their_tokens(bench: Any) -> None:
    """Called by hand with rows that change places, are doubled and dropped, as beams are."""
    rng = np.random.default_rng(7)
    grammar = compile_regex("([ab]{2}c|ad+)*", bench.vocabulary)
    one = processor(grammar)
    prompt = [5, 6, 7]
    for _ in range(5):
        generated: list[list[int]] = [[], [], []]
        for _ in range(12):
            masks = masks_by_hand(one, [prompt + tokens for tokens in generated])
            assert masks == expected_masks(grammar, generated)
            parents = rng.integers(0, 3, 3)
            letters = [sorted(masks[parent] - {bench.tokenizer.eos_token_id}) for parent in parents]
            generated = [
                generated[parent] + [int(rng.choice(some))] for parent, some in zip(parents, letters, strict=True)
            ]
        one.reset()


def test_what_can_go_on_no_further_may_only_end(bench: Any) -> None:
    end = bench.tokenizer.eos_token_id
    one = processor(compile_regex("ab", bench.vocabulary))
    a, b, x = (bench.tokenizer.convert_tokens_to_ids(letter) for letter in "abx")
    assert masks_by_hand(one, [[5], [5]])[0] == {a, bench.tokenizer.convert_tokens_to_ids("ab")} - {
        bench.tokenizer.unk_token_id,
        None,
    }
    masks_by_hand(one, [[5, a], [5, x]])
    assert masks_by_hand(one, [[5, a, b], [5, x, x]]) == [{end}, {end}]
    assert masks_by_hand(one, [[5, a, b, end], [5, x, x, 0]]) == [{end}, {end}]
    assert masks_by_hand(one, [[5, a, b, end, 0], [5, x, x, 0, 0]]) == [{end}, {end}]


def test_another_stop_token(bench: Any) -> None:
    other = bench.tokenizer.bos_token_id
    one = processor(compile_regex("a", bench.vocabulary), stop_token_ids=other)
    a = bench.tokenizer.convert_tokens_to_ids("a")
    masks_by_hand(one, [[5]])
    assert masks_by_hand(one, [[5, a]]) == [{other}]


def test_scores_of_any_width(bench: Any) -> None:
    one = processor(compile_regex("a", bench.vocabulary))
    a = bench.tokenizer.convert_tokens_to_ids("a")
    for width in (a + 1, 640, 700):
        one.reset()
        assert masks_by_hand(one, [[5]], width) == [{a}]


def test_rows_that_cannot_be_shared_out(bench: Any, grammar: Any) -> None:
    with pytest.raises(ValueError, match="3 rows"):
        masks_by_hand(processor([grammar, grammar]), [[5], [5], [5]])
    with pytest.raises(ValueError, match="at least one"):
        processor([])


def test_continuous_batching_is_refused(bench: Any, grammar: Any) -> None:
    import torch
    from transformers.generation.continuous_batching.cb_logits_processors import ContinuousBatchingLogitsProcessorList

    one = processor(grammar)
    assert ContinuousBatchingLogitsProcessorList([one]).logits_processor == []
    with pytest.raises(UnsupportedError, match="continuous batching"):
        one(torch.tensor([5, 6]), torch.zeros((2, 640)))


TEXT = 'hello wörld, 日本 {"a": [1]}\n'


def spelt(vocabulary: Vocabulary, tokens: list[int]) -> str:
    return b"".join(map(vocabulary.token_bytes, tokens)).decode()


def test_the_vocabulary_of_a_slow_sentencepiece_tokenizer(tmp_path: Path) -> None:
    import sentencepiece
    from transformers.tokenization_utils_sentencepiece import SentencePieceBackend

    model = tmp_path / "model"
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["hello world", "the lazy dog"] * 50),
        model_prefix=str(model),
        vocab_size=300,
        model_type="bpe",
        byte_fallback=True,
        hard_vocab_limit=False,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        minloglevel=2,
    )
    tokenizer = SentencePieceBackend(
        vocab_file=f"{model}.model", unk_token="<unk>", bos_token="<s>", eos_token="</s>", pad_token="<pad>"
    )
    tokenizer.add_tokens(["<extra>"])
    vocabulary = Vocabulary.from_huggingface(tokenizer)
    assert spelt(vocabulary, tokenizer(TEXT, add_special_tokens=False).input_ids) == " " + TEXT
    assert vocabulary.stop_token_ids == (tokenizer.eos_token_id,)
    special = {tokenizer.unk_token_id, tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id}
    assert set(vocabulary.special_token_ids) == special
    extra = tokenizer.convert_tokens_to_ids("<extra>")
    assert vocabulary.token_bytes(extra) == b"<extra>"
    assert vocabulary.is_text(extra)


def test_the_vocabulary_of_a_slow_tokenizer_of_bytes() -> None:
    from transformers import ByT5Tokenizer

    tokenizer = ByT5Tokenizer()
    vocabulary = Vocabulary.from_huggingface(tokenizer)
    assert spelt(vocabulary, tokenizer(TEXT, add_special_tokens=False).input_ids) == TEXT
    assert vocabulary.stop_token_ids == (tokenizer.eos_token_id,)


def test_the_vocabulary_of_a_fast_tokenizer(bench: Any) -> None:
    tokens = bench.tokenizer(TEXT, add_special_tokens=False).input_ids
    assert spelt(bench.vocabulary, tokens) == TEXT
    assert bench.vocabulary.stop_token_ids == (bench.tokenizer.eos_token_id,)


def test_a_slow_tokenizer_of_another_kind_is_refused() -> None:
    from transformers import PreTrainedTokenizer

    class WordTokenizer(PreTrainedTokenizer):  # type: ignore[misc]
        vocab_size = 1

        def get_vocab(self) -> dict[str, int]:
            return {"word": 0}

        def _convert_token_to_id(self, token: str) -> int:
            return 0

        def _convert_id_to_token(self, index: int) -> str:
            return "word"

    with pytest.raises(UnsupportedError, match="WordTokenizer"):
        Vocabulary.from_huggingface(WordTokenizer())
