"""The wire: round trips, bounds, and bytes that nobody should send."""

from __future__ import annotations

import contextlib
import dataclasses

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shmcache.errors import LimitError, SourceError
from shmcache.limits import MESSAGE_BYTES_MAX
from shmcache.manager import wire
from shmcache.memory.segments import SEGMENT_BYTES_MAX

KEY = bytes(range(32))

EXAMPLES: tuple[wire.Message, ...] = (
    wire.Hello(request=1, protocol=1, role="client", pid=17, vocabulary_key=KEY),
    wire.Hello(request=1, protocol=1, role="tool", pid=17),
    wire.Compile(request=2, kind="grammar", key=KEY, vocabulary_key=KEY, source=b"x" * 100),
    wire.Compile(request=2, kind="vocabulary", key=KEY, vocabulary_key=KEY, source=b"", descriptors=1),
    wire.Cancel(request=3, target=2),
    wire.Fetch(request=4, tier="rule", key=KEY),
    wire.Clear(request=5),
    wire.Evict(request=6, key=KEY),
    wire.Status(request=7),
    wire.Welcome(request=1, protocol=1, instance=2, epoch=3, generation=4, pid=5, row=6),
    wire.Image(request=2, key=KEY, generation=4, serial=9, payload_bytes=12),
    wire.Missing(request=4),
    wire.Refused(request=2, code="LIMIT", message="too much", details={"limit": "states", "value": 3}),
    wire.Cleared(request=5, generation=6),
    wire.Evicted(request=6, entries=1, charged_bytes=4096),
    wire.StatusReply(request=7, stats={"charged_bytes": {"total": 1}, "workers": [{"pid": 1, "state": "idle"}]}),
    wire.Job(
        job=1,
        kind="grammar",
        key=KEY,
        vocabulary_key=KEY,
        generation=3,
        source=b"s",
        source_bytes=1,
        vocabulary_bytes=10,
        seconds_max=1.5,
        states_max=1,
        edges_max=1,
        memory_bytes_max=1,
        descriptors=1,
    ),
    wire.WarmUp(),
    wire.CancelJob(job=1),
    wire.Allocated(request=1, outcome="granted", instance=1, generation=1, serial=2),
    wire.Committed(request=1, outcome="fenced"),
    wire.WorkerState(pid=1, state="cold"),
    wire.Alloc(request=1, job=1, tier="rule", key=KEY, segment_bytes=4096),
    wire.Commit(request=1, job=1, tier="rule", key=KEY, serial=2, payload_bytes=3, cost_us=4),
    wire.Abandon(job=1, serial=2),
    wire.Fail(job=1, code="SOURCE_ERROR", message="bad", details={"line": 1, "column": 2}),
    wire.Done(job=1),
)


@pytest.mark.parametrize("message", EXAMPLES, ids=lambda message: message.op)
def test_every_message_survives_the_round_trip(message: wire.Message) -> None:
    assert list(wire.Decoder().feed(wire.encode(message))) == [message]


def test_the_examples_cover_every_message() -> None:
    assert {type(message) for message in EXAMPLES} == set(wire._MESSAGES.values())


@given(st.lists(st.sampled_from(EXAMPLES), max_size=6), st.data())
def test_chunking_does_not_matter(messages: list[wire.Message], data: st.DataObject) -> None:
    stream = b"".join(wire.encode(message) for message in messages)
    decoder = wire.Decoder()
    received: list[wire.Message] = []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        received += decoder.feed(stream[:size])
        stream = stream[size:]
    assert received == messages
    assert decoder.is_between_messages


@settings(max_examples=500)
@given(st.binary(max_size=200))
def test_arbitrary_streams_give_messages_or_wire_errors(data: bytes) -> None:
    decoder = wire.Decoder()
    try:
        assert all(isinstance(message, wire.Message) for message in decoder.feed(data))
    except wire.WireError:
        with pytest.raises(wire.WireError):
            list(decoder.feed(wire.encode(wire.Clear(request=1))))


@settings(max_examples=500)
@given(st.binary(max_size=200))
def test_arbitrary_bodies_give_messages_or_wire_errors(body: bytes) -> None:
    with contextlib.suppress(wire.WireError):
        assert isinstance(wire.decode_body(body), wire.Message)


_PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 64) - 1)
    | st.floats()
    | st.text(max_size=5)
    | st.binary(max_size=40),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=500)
@given(st.sampled_from(EXAMPLES), st.data())
def test_a_field_of_any_other_value_is_accepted_whole_or_refused(message: wire.Message, data: st.DataObject) -> None:
    plain = {"op": message.op, **dataclasses.asdict(message)}
    name = data.draw(st.sampled_from(sorted(plain)))
    plain[name] = data.draw(_PLAIN)
    try:
        again = wire.decode_body(msgpack.packb(plain))
    except wire.WireError:
        return
    assert list(wire.Decoder().feed(wire.encode(again))) == [again]


@settings(max_examples=300)
@given(st.sampled_from(EXAMPLES), st.data())
def test_a_flipped_byte_or_a_cut_never_crashes(message: wire.Message, data: st.DataObject) -> None:
    frame = bytearray(wire.encode(message))
    frame[data.draw(st.integers(0, len(frame) - 1))] ^= data.draw(st.integers(1, 255))
    decoder = wire.Decoder()
    with contextlib.suppress(wire.WireError):
        assert all(
            isinstance(item, wire.Message)
            for item in decoder.feed(bytes(frame[: data.draw(st.integers(0, len(frame)))]))
        )


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xc1",
        msgpack.packb([1]),
        msgpack.packb({}),
        msgpack.packb({"op": "nothing"}),
        msgpack.packb({"op": ["clear"], "request": 1}),
        msgpack.packb({"op": "clear"}),
        msgpack.packb({"op": "clear", "request": True}),
        msgpack.packb({"op": "clear", "request": -1}),
        msgpack.packb({"op": "clear", "request": 1 << 32}),
        msgpack.packb({"op": "clear", "request": 1, "more": 1}),
        msgpack.packb({"op": "clear", "request": 1}) + b"\x00",
        msgpack.packb({"op": "evict", "request": 1, "key": KEY[:31]}),
        msgpack.packb({"op": "evict", "request": 1, "key": KEY.hex()}),
        msgpack.packb({"op": "clear", "request": msgpack.ExtType(5, b"x")}),
        msgpack.packb({1: "clear"}),
        b"\x91" * 60_000,
        b"\xdf\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xff",
    ],
    ids=range(19),
)
def test_what_is_no_message_is_a_wire_error(body: bytes) -> None:
    with pytest.raises(wire.WireError):
        wire.decode_body(body)


def test_oversize_is_refused_before_its_bytes_arrive() -> None:
    with pytest.raises(wire.WireError, match="over the limit"):
        list(wire.Decoder().feed((MESSAGE_BYTES_MAX + 1).to_bytes(4, "little")))


@pytest.mark.parametrize("segment_bytes", [0, SEGMENT_BYTES_MAX + 1, 1 << 62])
def test_room_for_an_impossible_segment_is_not_asked_for(segment_bytes: int) -> None:
    with pytest.raises(wire.WireError):
        wire.encode(wire.Alloc(request=1, job=1, tier="rule", key=KEY, segment_bytes=segment_bytes))


def test_oversize_is_refused_when_sending() -> None:
    with pytest.raises(wire.WireError, match="over the limit"):
        wire.encode(wire.StatusReply(request=1, stats={"x": "y" * MESSAGE_BYTES_MAX}))
    with pytest.raises(wire.WireError):
        wire.encode(
            wire.Compile(request=1, kind="grammar", key=KEY, vocabulary_key=KEY, source=b"x" * MESSAGE_BYTES_MAX)
        )


def test_deep_plain_data_is_refused() -> None:
    deep: dict[str, object] = {}
    for _ in range(20):
        deep = {"a": deep}
    with pytest.raises(wire.WireError, match="nested"):
        wire.decode_body(msgpack.packb({"op": "status_reply", "request": 1, "stats": deep}))


def test_errors_travel_typed() -> None:
    for error in (SourceError("bad", line=3, column=4), LimitError("much", limit="states", value=5)):
        sent = wire.Refused(request=1, **error.to_plain())
        (received,) = wire.Decoder().feed(wire.encode(sent))
        restored = wire.expect(received, wire.Refused).error()
        assert type(restored) is type(error)
        assert restored.to_plain() == error.to_plain()


def test_expect_names_both() -> None:
    with pytest.raises(wire.WireError, match="expected cleared, got missing"):
        wire.expect(wire.Missing(request=1), wire.Cleared)
