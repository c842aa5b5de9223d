"""Channels, descriptors and parts: what goes in comes out, and nothing else gets by."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest

from shmcache.errors import SegmentError
from shmcache.manager import wire
from shmcache.manager.channel import Channel, ChannelClosed
from shmcache.manager.descriptors import Intake, close_all, receive_some, send_some
from shmcache.manager.parts import join_parts, split_parts

KEY = b"k" * 32
GUARD_SECONDS = 5.0


@pytest.fixture
def pair() -> Iterator[tuple[Channel, Channel]]:
    left, right = (Channel(end) for end in socket.socketpair())
    yield left, right
    left.close()
    right.close()


def memory(content: bytes) -> int:
    descriptor = os.memfd_create("test", os.MFD_CLOEXEC)
    os.write(descriptor, content)
    return descriptor


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_messages_and_their_descriptors_arrive_together(pair: tuple[Channel, Channel]) -> None:
    left, right = pair
    before = open_descriptors()
    contents = [b"first", b"second"]
    for number, content in enumerate(contents):
        descriptor = memory(content)
        left.send(wire.Clear(request=number))
        left.send(wire.Image(request=number, key=KEY, generation=1, serial=1, payload_bytes=1), [descriptor])
        os.close(descriptor)
    for number, content in enumerate(contents):
        assert right.receive(GUARD_SECONDS) == (wire.Clear(request=number), [])
        message, descriptors = right.receive(GUARD_SECONDS)
        assert message.op == "image"
        (descriptor,) = descriptors
        assert os.pread(descriptor, 100, 0) == content
        assert not os.get_inheritable(descriptor)
        os.close(descriptor)
    assert open_descriptors() == before


def test_a_large_message_arrives_whole(pair: tuple[Channel, Channel]) -> None:
    left, right = pair
    descriptor = memory(b"x")
    message = wire.Compile(
        request=1,
        kind="grammar",
        key=KEY,
        vocabulary_key=KEY,
        source=b"s" * wire.INLINE_SOURCE_BYTES_MAX,
        descriptors=1,
    )
    left.send(message, [descriptor])
    os.close(descriptor)
    received, descriptors = right.receive(GUARD_SECONDS)
    assert received == message
    close_all(descriptors)


def test_nothing_there_is_a_timeout(pair: tuple[Channel, Channel]) -> None:
    with pytest.raises(TimeoutError):
        pair[1].receive(0)


def test_the_end_is_told(pair: tuple[Channel, Channel]) -> None:
    left, right = pair
    left.send(wire.Clear(request=1))
    left.close()
    assert right.receive(GUARD_SECONDS)[0] == wire.Clear(request=1)
    with pytest.raises(ChannelClosed):
        right.receive(GUARD_SECONDS)
    with pytest.raises(ChannelClosed):
        right.send(wire.Clear(request=1))


def test_a_stream_cut_within_a_message_is_an_error() -> None:
    left, right = socket.socketpair()
    with left:
        left.send(wire.encode(wire.Clear(request=1))[:-1])
    channel = Channel(right)
    with pytest.raises(wire.WireError, match="within a message"):
        channel.receive(GUARD_SECONDS)
    channel.close()


def test_descriptors_without_a_message_are_closed() -> None:
    left, right = socket.socketpair()
    with left, right:
        before = open_descriptors()
        descriptor = memory(b"x")
        send_some(left, wire.encode(wire.Clear(request=1)), [descriptor])
        os.close(descriptor)
        intake = Intake()
        with pytest.raises(wire.WireError, match="no message claims"):
            list(intake.feed(*receive_some(right)))
        intake.close()
        assert open_descriptors() == before


def test_a_message_without_its_descriptor_is_an_error() -> None:
    intake = Intake()
    image = wire.encode(wire.Image(request=1, key=KEY, generation=1, serial=1, payload_bytes=1))
    with pytest.raises(wire.WireError, match="lacks descriptors"):
        list(intake.feed(image, []))


def test_too_many_descriptors_are_an_error_and_do_not_leak() -> None:
    left, right = socket.socketpair()
    with left, right:
        descriptor = memory(b"x")
        before = open_descriptors()
        send_some(left, b"x", [descriptor] * 20)
        with pytest.raises(wire.WireError, match="more descriptors"):
            receive_some(right)
        assert open_descriptors() == before
        os.close(descriptor)


@pytest.mark.parametrize("parts", [[b"a"], [b"", b"b" * 64, b"c" * 65], [b"x" * 1000] * 7])
def test_parts_come_apart_as_they_went_in(parts: list[bytes]) -> None:
    payload = b"".join(join_parts(parts))
    assert [bytes(part) for part in split_parts(payload, len(parts))] == parts
    with pytest.raises(SegmentError):
        split_parts(payload[:64], len(parts))


def test_other_payloads_have_no_parts() -> None:
    for payload in (b"", b"x" * 64, b"x" * 1000):
        with pytest.raises(SegmentError):
            split_parts(payload, 1)
