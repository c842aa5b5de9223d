"""Masks of free text with triggers: what the compiler makes of dispatch is what its definition allows."""

from __future__ import annotations

from random import Random

import pytest

from shmcache.grammar.ebnf import ebnf_grammar
from shmcache.grammar.whole_tokens import with_token_ids
from shmcache.limits import Budget
from shmcache.matcher.matcher import GrammarMatcher
from shmcache.rows.rule_walker import RuleWalker
from shmcache.vocabulary.vocabulary import Vocabulary
from tests.matcher.support import allowed, compiled, compiled_or_none
from tests.reference.grammars import random_vocabulary
from tests.reference.masks import reference_mask
from tests.reference.whole_tokens import Readings

pytestmark = pytest.mark.reference

RULES = 'r ::= "x" | "é"\ns ::= [ab]* "b"\nt ::= root?'
TRIGGERS = ["a", "ab", "bab", "b", "é", "éa", "xé"]


def random_macro(rng: Random, triggers: list[str], excludes: list[str], name: str) -> str:
    pairs = [f"({trigger}, {rng.choice('rst')})" for trigger in triggers]
    if excludes:
        pairs.append(f"excludes=({', '.join(excludes)})")
    pairs.append(f"loop_after_dispatch={rng.choice(['true', 'false'])}")
    return f"{name}({', '.join(pairs)})"


def random_text(rng: Random, macro: str) -> str:
    body = rng.choice(["{}", "{}", '"b" {} "a"', '({} "x")*', 'Substring("a", "ab", "é") {} | Regex("(?:ab?)+é")'])
    return f"root ::= {body.format(macro)}\n{RULES}"


@pytest.mark.parametrize("seed", range(10))
def test_masks_of_dispatch(seed: int) -> None:
    rng = Random(seed)
    steps = 0
    for _ in range(5):
        triggers = rng.sample(TRIGGERS, rng.randint(0, 3))
        excludes = [
            one for one in rng.sample(TRIGGERS, rng.randint(0, 2)) if not any(t.startswith(one) for t in triggers)
        ]
        macro = random_macro(rng, [f'"{one}"' for one in triggers], [f'"{one}"' for one in excludes], "TagDispatch")
        text = random_text(rng, macro)
        tested, vocabulary = ebnf_grammar(text, "root", Budget()), random_vocabulary(rng)
        grammar = compiled_or_none(tested, vocabulary)
        if grammar is None:
            continue
        matcher, taken = GrammarMatcher(grammar), b""
        for _ in range(4):
            found = allowed(matcher, vocabulary.width)
            stops = set(matcher.stop_token_ids)
            assert found == reference_mask(tested, vocabulary, taken, stops), (text, taken)
            ways = sorted(found - stops)
            if not ways or len(taken) > 5:
                break
            token = rng.choice(ways)
            assert matcher.accept_token(token)
            taken += vocabulary.token_bytes(token)
            steps += 1
    assert steps > 5


@pytest.mark.parametrize("seed", range(10))
def test_masks_of_dispatch_on_whole_tokens(seed: int) -> None:
    rng = Random(seed)
    steps = 0
    for _ in range(5):
        vocabulary = random_vocabulary(rng)
        real = [number for number in range(min(vocabulary.size, vocabulary.width)) if vocabulary.token_bytes(number)]
        numbers = [str(number) for number in rng.sample(real, min(4, len(real)))]
        macro = random_macro(rng, numbers[:2], numbers[2:], "TokenTagDispatch")
        text = random_text(rng, rng.choice([macro, macro, f"ExcludeToken({numbers[0]}) {macro} Token({numbers[1]})"]))
        tested = ebnf_grammar(text, "root", Budget())
        grammar = compiled_or_none(with_token_ids(tested, vocabulary, Budget()), vocabulary)
        if grammar is None:
            continue
        matcher, readings = GrammarMatcher(grammar), Readings.of(tested, vocabulary)
        stops = set(matcher.stop_token_ids)
        for _ in range(3):
            found = allowed(matcher, vocabulary.width)
            assert found == readings.mask(stops), (text, readings.texts)
            ways = sorted(found - stops)
            if not ways:
                break
            token = rng.choice(ways)
            assert matcher.accept_token(token)
            readings = readings.after(token)
            steps += 1
    assert steps > 5


def test_a_tool_call_in_free_text() -> None:
    """Tokens that end free text, spell the trigger and begin the call, in one."""
    tokens = [b"I", b" will", b" <", b"<", b"to", b"ol>", b"ol>{", b"<tool>{}", b"{", b"}", b"</tool>", b"</s>", b">"]
    vocabulary = Vocabulary(tokens, stop_token_ids=[11])
    text = 'root ::= TagDispatch(("<tool>", call), excludes=(" <t"))\ncall ::= "{" "}" "</tool>"'
    matcher = GrammarMatcher(compiled(ebnf_grammar(text, "root", Budget()), vocabulary))
    assert allowed(matcher, len(tokens)) == set(range(len(tokens)))
    assert matcher.accept_string("I <")
    assert allowed(matcher, len(tokens)) == set(range(len(tokens))) - {4}
    matcher.rollback(1)
    assert matcher.accept_string("<to")
    assert allowed(matcher, len(tokens)) == set(range(len(tokens)))
    assert matcher.accept_token(6)
    assert allowed(matcher, len(tokens)) == {9}
    assert matcher.accept_token(9)
    assert matcher.accept_token(10)
    assert allowed(matcher, len(tokens)) == set(range(len(tokens)))


def test_few_states_are_walked_in_full(monkeypatch: pytest.MonkeyPatch, small_vocabulary: Vocabulary) -> None:
    """Within a trigger the row is that of free text but for a few tokens, though the rule calls others."""
    walked: list[int] = []
    walk = RuleWalker._walk

    def counting_walk(walker: RuleWalker, state: int) -> object:
        walked.append(state)
        return walk(walker, state)

    monkeypatch.setattr(RuleWalker, "_walk", counting_walk)
    pairs = ", ".join(f'("<function={number * 7919:06}>", r)' for number in range(100))
    tested = ebnf_grammar(f'root ::= TagDispatch({pairs})\nr ::= "{{" [^}}]* "}}"', "root", Budget())
    grammar = compiled(tested, small_vocabulary)
    assert grammar.image.automaton.state_count > 300
    assert grammar.image.automaton.call_rule.size
    assert len(walked) < 30
    matcher = GrammarMatcher(grammar)
    for text in ("a <function", "=007919", ">", "{", "}"):
        assert matcher.accept_string(text)
        accepted = {number for number in range(small_vocabulary.width) if matcher.fork().accept_token(number)}
        assert allowed(matcher, small_vocabulary.width) == accepted
