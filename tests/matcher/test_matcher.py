"""What a request sees: stop tokens, termination, rollback, fork, reset, bitmasks of every shape."""

from __future__ import annotations

import time

import numpy as np
import numpy.typing as npt
import pytest

from shmcache.grammar.ir import Characters, Choice, Expression, Grammar, Literal, Reference, Repeat, Sequence
from shmcache.matcher import matcher as matcher_module
from shmcache.matcher.bitmask import allocate_token_bitmask
from shmcache.matcher.matcher import GrammarMatcher
from shmcache.regular.code_points import ANY, CodePoints
from shmcache.vocabulary.vocabulary import Vocabulary
from tests.matcher.support import allowed, compiled
from tests.reference.masks import mask_bits

pytestmark = pytest.mark.reference

A, B, C = Literal(b"a"), Literal(b"b"), Literal(b"c")
NESTED = Grammar(
    {"root": Choice((Sequence((Literal(b"["), Repeat(Reference("root"), 0, None), Literal(b"]"))), A))}, "root"
)

TOKENS: list[bytes | None] = [b"a", b"[", b"]", b"[[", b"]]", b"a]", b"", None, b"<pad>", b"</s>", b"<eot>", b"b", b"a"]
PAD, STOP, TURN = 8, 9, 10
VOCABULARY = Vocabulary(TOKENS, special_token_ids=[PAD], stop_token_ids=[STOP, TURN], width=len(TOKENS) - 1)
"""The last ``a`` is at the width, so it has no bit; id 6 is empty, 7 is a gap."""

WIDTH = VOCABULARY.width


def grammar(root: Expression) -> Grammar:
    return Grammar({"root": root}, "root")


def nested(**options: object) -> GrammarMatcher:
    return GrammarMatcher(compiled(NESTED, VOCABULARY), **options)  # type: ignore[arg-type]


def state(matcher: GrammarMatcher) -> tuple[object, ...]:
    """All that a user can see."""
    return allowed(matcher, WIDTH), matcher.is_completed(), matcher.is_terminated(), matcher.find_jump_forward_string()


@pytest.mark.parametrize("token", [-1, -(1 << 40), 1 << 40, len(TOKENS), WIDTH, WIDTH + 31, PAD, 6, 7, STOP, 11, 2])
def test_what_is_not_allowed_changes_nothing(token: int) -> None:
    """Out of range, at the width, special, empty, a gap, a stop token too early, and text that does not fit."""
    matcher = nested()
    before = state(matcher)
    assert token not in before[0]  # type: ignore[operator]
    for _ in range(2):
        assert not matcher.accept_token(token)
        assert not matcher.accept_token(np.int64(token) if abs(token) < 1 << 60 else token)
        assert state(matcher) == before
    with pytest.raises(ValueError, match="roll back"):
        matcher.rollback(1)
    assert matcher.accept_token(1)
    matcher.rollback(1)
    assert state(matcher) == before


class Scalar:
    """As a tensor of torch without dimensions: an integer, but equal by identity only."""

    def __init__(self, value: int) -> None:
        self._value = value

    def __index__(self) -> int:
        return self._value

    __eq__ = object.__eq__
    __hash__ = object.__hash__


def test_any_integer_is_a_token_id() -> None:
    matcher = nested()
    start = matcher._configuration
    for take in (Scalar, np.int64, np.uint16):
        for token in (1, 2, STOP):
            assert matcher.accept_token(take(token))
        assert matcher.is_terminated()
        matcher.rollback(3)
    assert set(map(type, start.after)) == {int}
    for wrong in (97.5, "a", None, np.array([1])):
        with pytest.raises(TypeError):
            matcher.accept_token(wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        matcher.accept_string(3)  # type: ignore[arg-type]
    assert nested(override_stop_tokens=np.int64(PAD)).stop_token_ids == [PAD]


def test_strings_that_do_not_fit_change_nothing() -> None:
    matcher = nested()
    assert matcher.accept_string("[a")
    before = state(matcher)
    for text in ("x", "]]", "aé", "\ud800", b"]]", b"\xff", "]" * 70_000):
        assert not matcher.accept_string(text)
        assert state(matcher) == before
    assert matcher.accept_string("")
    assert state(matcher) == before
    matcher.rollback(1)
    assert state(matcher) == before, "the empty string was a step"
    assert matcher.accept_string(b"[[]]]")
    assert matcher.is_completed()


def test_stop_tokens_are_allowed_where_the_text_may_end() -> None:
    matcher = nested()
    assert allowed(matcher, WIDTH) == {0, 1, 3}
    assert matcher.accept_token(0)
    assert allowed(matcher, WIDTH) == {STOP, TURN}
    assert matcher.is_completed()
    assert not matcher.is_terminated()
    assert matcher.accept_token(TURN)
    assert matcher.is_terminated()
    assert matcher.is_completed()
    assert allowed(matcher, WIDTH) == set()
    for token in range(-1, len(TOKENS) + 1):
        assert not matcher.accept_token(token)
    assert not matcher.accept_string("a")
    assert not matcher.accept_string("")
    assert matcher.find_jump_forward_string() == ""
    matcher.rollback(1)
    assert allowed(matcher, WIDTH) == {STOP, TURN}
    assert not matcher.is_terminated()


def test_stop_tokens_of_the_request_replace_those_of_the_vocabulary() -> None:
    matcher = nested(override_stop_tokens=[TURN])
    assert matcher.stop_token_ids == [TURN]
    assert matcher.accept_token(0)
    assert allowed(matcher, WIDTH) == {TURN}
    assert not matcher.accept_token(STOP)
    assert matcher.accept_token(TURN)
    assert nested(override_stop_tokens=PAD).stop_token_ids == [PAD]
    assert nested(override_stop_tokens=(STOP, PAD)).stop_token_ids == [PAD, STOP]
    never = nested(override_stop_tokens=[])
    assert never.accept_token(0)
    assert allowed(never, WIDTH) == set()
    assert not never.accept_token(STOP)


def test_a_stop_token_that_is_text_is_never_text() -> None:
    matcher = nested(override_stop_tokens=[0])
    assert allowed(matcher, WIDTH) == {1, 3}
    assert not matcher.accept_token(0)
    assert matcher.accept_string("a")
    assert allowed(matcher, WIDTH) == {0}
    again = GrammarMatcher(compiled(grammar(Repeat(A, 0, None)), VOCABULARY), override_stop_tokens=[0])
    assert allowed(again, WIDTH) == {0}
    assert again.accept_token(0)
    assert again.is_terminated()


@pytest.mark.parametrize("token", [-1, WIDTH, 1 << 40])
def test_a_stop_token_without_a_bit_is_refused(token: int) -> None:
    """As the vocabulary refuses it: no mask could ever allow the request to end."""
    with pytest.raises(ValueError, match="stop token"):
        nested(override_stop_tokens=[STOP, token])


def test_a_stop_token_between_the_tokenizer_and_the_width() -> None:
    """Engines pad the vocabulary; an id in the padding has a bit, and may be what ends this request."""
    wide = Vocabulary([b"a", b"b"], width=70)
    matcher = GrammarMatcher(compiled(grammar(A), wide), override_stop_tokens=[69])
    assert not matcher.accept_token(69)
    assert matcher.accept_token(0)
    assert allowed(matcher, 70) == {69}
    assert matcher.accept_token(69)
    assert matcher.is_terminated()


def test_termination_without_a_stop_token() -> None:
    matcher = nested(terminate_without_stop_token=True)
    assert matcher.accept_token(3)
    assert not matcher.is_terminated()
    assert matcher.accept_token(2)
    assert allowed(matcher, WIDTH) == {0, 1, 2, 3, 5}
    assert matcher.accept_token(2)
    assert matcher.is_terminated()
    assert matcher.is_completed()
    assert allowed(matcher, WIDTH) == set()
    for token in range(-1, len(TOKENS) + 1):
        assert not matcher.accept_token(token)
    assert not matcher.accept_string("")
    matcher.rollback(1)
    assert not matcher.is_terminated()
    assert matcher.accept_token(5)
    empty = GrammarMatcher(compiled(grammar(Repeat(A, 0, None)), VOCABULARY), None, True)
    assert empty.is_terminated(), "the empty text is a whole text"


def test_rollback_over_hundreds_of_tokens_and_the_end() -> None:
    matcher = nested()
    states = [state(matcher)]
    for token in [1] * 120 + [0] * 10 + [2] * 120 + [STOP]:
        assert matcher.accept_token(token)
        states.append(state(matcher))
    assert matcher.is_terminated()
    taken = len(states) - 1
    with pytest.raises(ValueError, match="roll back"):
        matcher.rollback(taken + 1)
    assert state(matcher) == states[-1], "nothing was taken back"
    matcher.rollback(0)
    for count in (1, 2, 200, 7):
        matcher.rollback(count)
        taken -= count
        assert state(matcher) == states[taken]
    matcher.rollback(taken)
    assert state(matcher) == states[0]
    with pytest.raises(ValueError, match="roll back"):
        matcher.rollback()
    with pytest.raises(ValueError, match="roll back"):
        matcher.rollback(-1)


def test_a_fork_goes_its_own_way() -> None:
    matcher = nested()
    assert matcher.accept_token(3)
    twin = matcher.fork()
    assert state(twin) == state(matcher)
    before = state(matcher)
    assert twin.accept_token(0)
    assert twin.accept_token(4)
    assert twin.accept_token(STOP)
    assert state(matcher) == before
    assert matcher.accept_token(2)
    assert twin.is_terminated()
    twin.rollback(3)
    assert state(twin) == before
    twin.rollback(1)
    matcher.rollback(2)
    assert state(twin) == state(matcher) == state(nested())
    assert nested(override_stop_tokens=[PAD], terminate_without_stop_token=True).fork().stop_token_ids == [PAD]


def test_a_fork_takes_as_long_after_many_steps_as_after_none() -> None:
    fresh = GrammarMatcher(compiled(grammar(Repeat(A, 0, None)), VOCABULARY))
    old = fresh.fork()
    for _ in range(50_000):
        assert old.accept_token(0)

    def seconds(matcher: GrammarMatcher) -> float:
        best = 1.0
        for _ in range(20):
            start = time.perf_counter()
            for _ in range(20):
                matcher.fork()
            best = min(best, time.perf_counter() - start)
        return best

    assert seconds(old) < 20 * seconds(fresh)
    old.rollback(50_000)
    assert state(old) == state(fresh)


def test_a_long_request_is_let_go_of_without_recursion() -> None:
    """Its steps are a chain; freeing the last one frees all the others."""
    matcher = GrammarMatcher(compiled(grammar(Repeat(A, 0, None)), VOCABULARY))
    for _ in range(200_000):
        assert matcher.accept_token(0)
    del matcher


def test_reset_begins_anew() -> None:
    matcher = nested(override_stop_tokens=[TURN])
    first = state(matcher)
    assert matcher.accept_token(0)
    assert matcher.accept_token(TURN)
    matcher.reset()
    assert state(matcher) == first
    assert matcher.stop_token_ids == [TURN]
    with pytest.raises(ValueError, match="roll back"):
        matcher.rollback()


def test_tokens_that_are_not_utf8_are_bytes_like_any_others() -> None:
    tokens = [b"\xc3", b"\xa9", b"\xe2\x82", b"\xac", b"a\xc3", b"\xff", b"\xa9\xe2", b"</s>"]
    vocabulary = Vocabulary(tokens, stop_token_ids=[7])
    matcher = GrammarMatcher(compiled(grammar(Repeat(Characters(CodePoints.of("aé€")), 1, None)), vocabulary))
    assert allowed(matcher, 8) == {0, 2, 4}
    assert matcher.accept_token(4)
    assert allowed(matcher, 8) == {1, 6}, "within a character the text may not end"
    assert not matcher.accept_token(7)
    assert matcher.accept_token(6)
    assert allowed(matcher, 8) == set(), "no token goes on with the second byte alone"
    assert matcher.accept_string(b"\x82")
    assert matcher.accept_token(3)
    assert allowed(matcher, 8) == {0, 2, 4, 7}
    no_text = GrammarMatcher(compiled(grammar(Sequence((Literal(b"\xff"), A))), vocabulary))
    assert allowed(no_text, 8) == {5}


@pytest.mark.parametrize("width", [1, 31, 32, 33, 40, 63, 64, 65, 100])
def test_vocabularies_wider_and_narrower_than_their_tokens(width: int) -> None:
    """Every token below the width is a way on, none beyond it is, and no bit is set where there is no token."""
    vocabulary = Vocabulary([b"a"] * 40, width=width)
    matcher = GrammarMatcher(compiled(grammar(Repeat(A, 0, None)), vocabulary))
    below = set(range(min(width, 40)))
    for surplus_words in range(3):
        assert allowed(matcher, width, surplus_words) == below
    assert {token for token in range(-1, 140) if matcher.fork().accept_token(token)} == below


def test_the_empty_text_alone() -> None:
    matcher = GrammarMatcher(compiled(grammar(Sequence(())), VOCABULARY))
    assert allowed(matcher, WIDTH) == {STOP, TURN}
    assert matcher.is_completed()
    assert not matcher.accept_token(0)
    assert matcher.accept_token(STOP)


@pytest.mark.parametrize(
    ("root", "taken", "forced"),
    [
        (Sequence((Literal("né😀".encode()), Choice((A, B)))), b"", "né😀"),
        (Sequence((Literal("né😀".encode()), Choice((A, B)))), "né😀".encode()[:2], ""),
        (Sequence((Literal("né😀".encode()), Choice((A, B)))), "né".encode(), "😀"),
        (Sequence((A, Characters(CodePoints.of("éê")))), b"", "a"),
        (Sequence((A, Characters(CodePoints.of("éê")))), b"a\xc3", ""),
        (Sequence((A, Characters(CodePoints.of("é")))), b"a\xc3", ""),
        (Sequence((A, Repeat(B, 0, 1))), b"", "a"),
        (Sequence((Repeat(A, 3, 3), Repeat(B, 3, 4), C)), b"", "aaabbb"),
        (Sequence((A, Literal(b"\xff"), B)), b"", "a"),
        (A, b"a", ""),
        (Choice((Literal(b"ab"), Literal(b"ac"))), b"", "a"),
        (Choice((Literal(b"ab"), Literal(b"a"))), b"a", ""),
        (Characters(ANY), b"", ""),
    ],
)
def test_jumps_never_cut_a_character(root: Expression, taken: bytes, forced: str) -> None:
    matcher = GrammarMatcher(compiled(grammar(root), VOCABULARY))
    assert matcher.accept_string(taken)
    before = state(matcher)
    assert matcher.find_jump_forward_string() == forced
    assert state(matcher) == before
    if forced:
        assert matcher.accept_string(forced)


def test_jumps_go_through_rules_and_have_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    called = Grammar({"root": Sequence((A, Reference("one"), B)), "one": Sequence((C, C))}, "root", frozenset({"one"}))
    assert GrammarMatcher(compiled(called, VOCABULARY)).find_jump_forward_string() == "accb"
    monkeypatch.setattr(matcher_module, "_JUMP_BYTES_MAX", 50)
    assert GrammarMatcher(compiled(grammar(Repeat(A, 300, 300)), VOCABULARY)).find_jump_forward_string() == "a" * 50


@pytest.mark.parametrize(
    ("tokens", "root", "taken", "forced"),
    [
        ([b"ab", b"b", b"c"], Literal(b"abbc"), b"", [0, 1, 2]),
        ([b"ab", b"b", b"c"], Sequence((Literal(b"ab"), Choice((B, C)))), b"", [0]),
        ([b"ab", b"b", b"c"], Sequence((Literal(b"ab"), Repeat(B, 0, 1))), b"", [0]),
        ([b"ab", b"b", b"c"], Literal(b"abbc"), b"ab", [1, 2]),
        ([b"ab", b"b", b"c"], Literal(b"abbc"), b"abbc", []),
        ([b"ab", b"b", b"c"], Literal(b"abbc"), b"a", [1, 1, 2]),
        ([b"ab", b"a", b"b"], Literal(b"ab"), b"", []),
        ([b"b", b"b", b"c"], Literal(b"cb"), b"", [2]),
        ([b"\xc3", b"\xa9", b"\xaa"], Characters(CodePoints.of("éê")), b"", [0]),
        ([b"\xc3", b"\xa9", b"\xaa"], Characters(CodePoints.of("é")), b"", [0, 1]),
        ([b"x", b"b", b"c"], Literal(b"abbc"), b"", []),
        ([b"a" * 40, b"b", b"c"], Choice((Literal(b"a" * 40 + b"b"), Literal(b"c"))), b"a" * 39, []),
    ],
)
def test_tokens_that_are_the_only_way_on(
    tokens: list[bytes], root: Expression, taken: bytes, forced: list[int]
) -> None:
    """A choice between spellings is a choice; a token may end within a character, and text may begin within a token."""
    vocabulary = Vocabulary([*tokens, b"</s>"], stop_token_ids=[3])
    matcher = GrammarMatcher(compiled(grammar(root), vocabulary))
    assert matcher.accept_string(taken)
    before = allowed(matcher, 4)
    assert matcher.find_jump_forward_tokens() == forced
    assert allowed(matcher, 4) == before
    assert all(matcher.accept_token(token) for token in forced)
    assert matcher.find_jump_forward_tokens() == []


def test_jumps_over_tokens_end_with_the_request_and_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    three = compiled(grammar(Repeat(A, 3, 3)), Vocabulary([b"a", b"b", b"</s>"] + [b"b"] * 62, stop_token_ids=[2]))
    assert GrammarMatcher(three).find_jump_forward_tokens() == [0, 0, 0]
    matcher = GrammarMatcher(three, terminate_without_stop_token=True)
    assert matcher.accept_string("aaa")
    assert matcher.is_terminated()
    assert matcher.find_jump_forward_tokens() == []
    never = GrammarMatcher(three, override_stop_tokens=[])
    assert never.accept_string("aaa")
    assert never.find_jump_forward_tokens() == []
    many = compiled(grammar(Repeat(A, 50, 60)), Vocabulary([b"b"] * 63 + [b"a"]))
    assert GrammarMatcher(many).find_jump_forward_tokens() == [63] * 50
    monkeypatch.setattr(matcher_module, "_JUMP_TOKENS_MAX", 20)
    assert GrammarMatcher(many).find_jump_forward_tokens() == [63] * 20


def bitmask_of(*shape: int, dtype: npt.DTypeLike = np.int32) -> npt.NDArray[np.int32]:
    return np.full(shape, 0x55, dtype=dtype)


def test_rows_are_written_and_no_other() -> None:
    matcher = nested()
    bitmask = bitmask_of(3, 4)
    assert matcher.fill_next_token_bitmask(bitmask, 1)
    assert mask_bits(bitmask[1]) == {0, 1, 3}
    assert (bitmask[[0, 2]] == 0x55).all()
    line = bitmask_of(1)
    matcher.fill_next_token_bitmask(line)
    assert mask_bits(line) == {0, 1, 3}
    strided = bitmask_of(2, 6)[:, ::2]
    matcher.fill_next_token_bitmask(strided, 1)
    assert mask_bits(strided[1]) == {0, 1, 3}
    assert (strided[0] == 0x55).all()
    assert matcher.accept_token(0)
    assert matcher.accept_token(STOP)
    matcher.fill_next_token_bitmask(bitmask, 2)
    assert not bitmask[2].any()


class Tensor:
    """What a torch tensor in main memory is to us: something with ``numpy()`` that shares its memory."""

    def __init__(self, array: npt.NDArray[np.int32]) -> None:
        self.array = array

    def numpy(self) -> npt.NDArray[np.int32]:
        return self.array


def test_tensors_are_written_in_place() -> None:
    tensor = Tensor(bitmask_of(2, 1))
    nested().fill_next_token_bitmask(tensor, 1)
    assert mask_bits(tensor.array[1]) == {0, 1, 3}
    assert tensor.array[0, 0] == 0x55


@pytest.mark.parametrize(
    "bitmask",
    [
        bitmask_of(),
        bitmask_of(0),
        bitmask_of(2, 0),
        bitmask_of(2, 2, 2),
        bitmask_of(2, 1, dtype=np.int64),
        bitmask_of(2, 1, dtype=np.uint32),
        bitmask_of(1, dtype=np.bool_),
    ],
    ids=lambda array: f"{array.dtype}{array.shape}",
)
def test_a_bitmask_of_another_shape_is_refused(bitmask: npt.NDArray[np.int32]) -> None:
    with pytest.raises(ValueError, match="int32"):
        nested().fill_next_token_bitmask(bitmask)
    wide = Vocabulary([b"a"], width=33)
    with pytest.raises(ValueError, match="2 words"):
        GrammarMatcher(compiled(grammar(A), wide)).fill_next_token_bitmask(bitmask_of(2, 1))


def test_a_row_that_is_not_there_is_refused() -> None:
    with pytest.raises(IndexError):
        nested().fill_next_token_bitmask(bitmask_of(2, 1), 2)
    with pytest.raises(ValueError, match="index"):
        nested().fill_next_token_bitmask(bitmask_of(1), 1)


def test_a_new_bitmask_allows_everything() -> None:
    bitmask = allocate_token_bitmask(2, 33)
    assert bitmask.shape == (2, 2)
    assert bitmask.dtype == np.int32
    assert (bitmask == -1).all()
