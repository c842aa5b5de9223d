"""The specifications of the formats say what the code does: every word, byte, field and number in their tables.

A table is read under its heading. Where it can be, what it says is tried on bytes that the code wrote.
"""

from __future__ import annotations

import re
import struct
import zlib
from dataclasses import fields
from enum import IntEnum
from hashlib import blake2b
from importlib import import_module
from typing import Any

import numpy as np
import pytest

import shmcache
from shmcache.automaton import grammar_automaton
from shmcache.image import attached_source, image
from shmcache.image.first_mask import FirstMask, with_first_mask
from shmcache.manager import fields as wire_fields
from shmcache.manager import parts, wire
from shmcache.manager.fields import WireError
from shmcache.memory import layout, objects, segments
from shmcache.memory.names import BUILDING_SUFFIX, Namespace
from shmcache.memory.words import checksum
from shmcache.rows import build, row_table
from shmcache.vocabulary import sections, trie, vocabulary
from tests.conftest import REPOSITORY

FORMATS = REPOSITORY / "docs/formats"
NAMED = re.compile(r"`([^`]+)`")
TYPES = {"int32": np.int32, "int64": np.int64, "uint8": np.uint8}

Table = list[tuple[str, ...]]


def tables(page: str) -> dict[str, list[Table]]:
    """The tables of a page without their heads, by the heading that they stand under."""
    found: dict[str, list[Table]] = {}
    heading, lines = "", []
    for line in [*(FORMATS / page).read_text(encoding="utf-8").splitlines(), ""]:
        if line.startswith("|"):
            lines.append(tuple(cell.strip() for cell in line.strip("|").split("|")))
        elif lines:
            found.setdefault(heading, []).append(lines[2:])
            lines = []
        if line.startswith("#"):
            heading = line.lstrip("# ")
    return found


def numbers_by_name(rows: Table) -> dict[str, int]:
    """Of rows that begin with a name and a number, in either order."""
    pairs = [(row[0], row[1]) if row[0].startswith("`") else (row[1], row[0]) for row in rows]
    assert len({name for name, _ in pairs}) == len(pairs)
    return {name.strip("`"): int(number) for name, number in pairs}


def number_of(text: str) -> int:
    """``2^63 − 1``, say."""
    power = re.fullmatch(r"2\^(\d+)( − 1)?", text)
    return int(text) if power is None else (1 << int(power[1])) - bool(power[2])


CONTROL, RECENCY, SEGMENT, PAYLOADS, WIRE = map(
    tables, ("control.md", "recency.md", "segment.md", "payloads.md", "wire.md")
)


def test_the_versions() -> None:
    rows = tables("index.md")["Formats"][0]
    assert len(rows) == 7
    for _, page, constant, value in rows:
        module, _, name = constant.strip("`").rpartition(".")
        assert getattr(import_module(module), name) == int(value), constant
        for target in re.findall(r"\(([a-z]+\.md)\)", page):
            text = " ".join((FORMATS / target).read_text(encoding="utf-8").split())
            assert f"{constant}, {value}." in text or f"{constant}, {value};" in text, (target, constant)


def test_the_names_of_objects() -> None:
    names = {row[0]: (row[1].strip("`"), row[2]) for row in tables("index.md")["Names"][0]}
    namespace = Namespace.of("some name", 1234)
    identity = b"%d\0%d\0%s" % (layout.CONTROL_LAYOUT_VERSION, 1234, b"some name")
    prefix = "shmc-" + blake2b(identity, digest_size=5).hexdigest()
    stated = {
        "control segment": (namespace.control_name, objects.WRITABLE_MODE),
        "recency segment": (namespace.recency_name, objects.WRITABLE_MODE),
        "lock beside the control segment": ("/" + namespace.shm_lock_path.name, 0o600),
        "data segment": (namespace.data_name(0xA0, 0x1F), objects.SEALED_MODE),
        "data segment that is being made": (namespace.data_name(0xA0, 0x1F) + BUILDING_SUFFIX, None),
    }
    assert names.keys() == stated.keys()
    for thing, (name, mode) in stated.items():
        template, stated_mode = names[thing]
        parts_of_it = {"<prefix>": prefix, "<instance>": f"{0xA0:016x}", "<serial>": f"{0x1F:x}"}
        for placeholder, value in parts_of_it.items():
            template = template.replace(placeholder, value)
        assert "/" + template == name
        assert stated_mode == (f"{mode:04o}" if mode is not None else "")


def test_every_number_of_the_layout_is_documented_as_it_is() -> None:
    documented = [
        CONTROL["Header"][0],
        CONTROL["Constants"][0],
        CONTROL["Record"][0],
        RECENCY["Arrays"][0],
        RECENCY["Client row"][0],
    ]
    stated: dict[str, int] = {}
    for rows in documented:
        stated |= numbers_by_name(rows)
    in_code = {name: value for name, value in vars(layout).items() if name.isupper() and type(value) is int}
    assert stated == in_code


@pytest.mark.parametrize(
    ("heading", "kind"),
    [("Manager states", layout.ManagerState), ("Slot states", layout.SlotState), ("Tiers", layout.Tier)],
)
def test_the_values_of_states_and_tiers(heading: str, kind: type[IntEnum]) -> None:
    assert numbers_by_name(CONTROL[heading][0]) == {member.name: int(member) for member in kind}


def test_the_counters() -> None:
    rows = CONTROL["Counters"][0]
    positions = {name: layout.COUNTERS + place for place, name in enumerate(layout.COUNTER_NAMES)}
    assert numbers_by_name(rows) == positions
    bounds = [float(seconds) for row in rows for seconds in re.findall(r"up to ([\d.]+) s", row[2])]
    assert tuple(bounds) == layout.COMPILE_SECONDS_BOUNDS


def test_the_sizes_of_the_segments() -> None:
    for row in CONTROL["Index"][0]:
        homes, *stated = map(int, row)
        starts = [layout.records_start(homes), layout.hints_start(homes)]
        assert stated == [layout.slot_count(homes), *starts, layout.control_size_bytes(homes)]
    for row in RECENCY["Arrays"][1]:
        homes, clients, *stated = map(int, row)
        size_bytes = layout.recency_size_bytes(homes, clients)
        assert stated == [layout.uses_start(homes), layout.rows_start(homes), size_bytes]


def test_the_checksum_of_words() -> None:
    words = (7, 8, 1 << 63)
    assert checksum(words) == zlib.crc32(struct.pack("<4Q", 3, *words)) | 1 << 32


def test_the_header_of_a_data_segment() -> None:
    rows, constants = SEGMENT["Data segment"]
    header = segments.SegmentHeader(1, 2, 3, 4, bytes(range(32)), 5, 6, bytes(range(32, 64)))
    data = header.to_bytes()
    values: dict[str, Any] = {}
    end = 0
    for start, length, kind, name, _ in rows:
        assert int(start) == end
        end += int(length)
        part = data[int(start) : end]
        values[name.strip("`")] = part if kind == "bytes" else int.from_bytes(part, "little")
    own = values.pop("header_checksum")
    assert own == zlib.crc32(data[: end - 4] + bytes(4))
    assert values.pop("magic") == segments.SEGMENT_MAGIC
    assert values.pop("layout_version") == segments.SEGMENT_LAYOUT_VERSION
    assert values == {field.name: getattr(header, field.name) for field in fields(header)}
    assert data[end:] == bytes(segments.HEADER_BYTES - end)
    assert numbers_by_name(constants) == {
        "HEADER_BYTES": segments.HEADER_BYTES,
        "SEGMENT_BYTES_MAX": segments.SEGMENT_BYTES_MAX,
    }


def test_the_header_of_sections() -> None:
    array = np.arange(5, dtype=np.int32)
    data = sections.pack_sections(b"8 bytes!", 9, (11, 12), (array,))
    found = {}
    for start, length, name, _ in PAYLOADS["Sections"][0]:
        if length.isdecimal():
            found[name] = data[int(start) : int(start) + int(length)]
    assert found.pop("magic") == b"8 bytes!"
    numbers = {name: int.from_bytes(part, "little") for name, part in found.items()}
    assert numbers.pop("checksum") == sections.checksum(memoryview(data))
    assert numbers == {"version": 9, "section count": 1, "total length": len(data), "word count": 2}
    assert struct.unpack_from("<3Q", data, 32) == (11, 12, len(array))
    assert data[64:] == array.tobytes()


def test_the_checksum_of_sections() -> None:
    """As the page says it, in plain integers."""
    data = np.random.default_rng(1).bytes(32 + 3 * 8192 + 100)
    end = 32 + 3 * 8192
    words = struct.unpack(f"<{3 * 1024}Q", data[32:end])
    full, factor = (1 << 64) - 1, 0x9E3779B97F4A7C15
    chunk = len(words) // 16
    a = sum(sum(words[j::64]) * (2 * j + 1) * factor for j in range(64)) & full
    b = sum(sum(words[j * chunk : (j + 1) * chunk]) * (2 * j + 1) * factor for j in range(16)) & full
    m = a ^ (b >> 47 | b << 17) & full
    crc = zlib.crc32(data[end:], zlib.crc32(data[:28]))
    assert sections.checksum(memoryview(data)) == crc ^ (m & 0xFFFFFFFF) ^ (m >> 32)


def documented_arrays(rows: Table) -> list[tuple[str, Any]]:
    return [(row[0].strip("`"), TYPES[row[1]]) for row in rows]


def documented_words(rows: Table) -> list[tuple[str, int]]:
    return [(row[1].strip("`"), int(row[0])) for row in rows]


@pytest.fixture(scope="module")
def small_vocabulary() -> shmcache.Vocabulary:
    tokens = [*(bytes([byte]) for byte in range(256)), b"ab", None, b"<end>"]
    return shmcache.Vocabulary(tokens, stop_token_ids=[258], width=300)


def unpacked(data: bytes, magic: bytes, rows: list[Table]) -> tuple[dict[str, Any], dict[str, Any], int]:
    """Words and arrays of sections by their documented names, and the version that they have."""
    words_rows, array_rows = documented_words(rows[0]), documented_arrays(rows[1])
    version = int.from_bytes(data[8:12], "little")
    count = sum(length for _, length in words_rows)
    words, arrays = sections.unpack_sections(data, magic, version, count, [dtype for _, dtype in array_rows])
    named: dict[str, Any] = {}
    at = 0
    for name, length in words_rows:
        part = words[at : at + length]
        named[name] = part[0] if length == 1 else struct.pack(f"<{length}Q", *part)
        at += length
    return named, dict(zip([name for name, _ in array_rows], arrays, strict=True)), version


def assert_same(arrays: dict[str, Any], owners: list[Any]) -> None:
    for name, array in arrays.items():
        owner = next(one for one in owners if hasattr(one, name))
        expected = np.asarray(getattr(owner, name))
        assert array.dtype == expected.dtype, name
        np.testing.assert_array_equal(array, expected, err_msg=name)


def test_the_image(small_vocabulary: shmcache.Vocabulary) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    opened = shmcache.compile_json_schema(schema, small_vocabulary).image
    words, arrays, version = unpacked(image.write_image(opened), b"SHMCimg\0", PAYLOADS["Image of a grammar"])
    assert version == image.LAYOUT_VERSION
    assert words.pop("root_nullable") == opened.automaton.root_nullable
    assert words == {name: getattr(opened, name) for name in words}
    assert arrays.pop("warnings").tobytes() == b"[]"
    assert list(arrays) == [*grammar_automaton.ARRAY_NAMES, *(field.name for field in fields(row_table.RowTable))]
    assert_same(arrays, [opened.automaton, opened.rows])
    forms = {"BITSET": row_table.BITSET, "ACCEPTED_IDS": row_table.ACCEPTED_IDS, "REJECTED_IDS": row_table.REJECTED_IDS}
    assert numbers_by_name(PAYLOADS["Forms"][0]) == forms


def test_rows_of_a_rule_are_arrays_of_an_image() -> None:
    names = [name for name, _ in documented_arrays(PAYLOADS["Image of a grammar"][1])]
    rows = names[names.index("state_accepted") : names.index("uncertain") + 1]
    assert rows == [field.name for field in fields(row_table.RowTable)]
    assert build._MAGIC == b"SHMCrow\0"


def test_the_first_mask_behind_an_image() -> None:
    mask = FirstMask(np.array([3, 5], dtype=np.int32), np.array([7, -9], dtype=np.int32), True, True)
    image = sections.pack_sections(b"8 bytes!", 9, (1,), ())
    data = with_first_mask(image, mask)[-(-len(image) // 8) * 8 :]
    places = {"16 + 4 *n*": 24, "16 + 8 *n*": 32, "4 *n*": 8}
    parts = [
        data[(start := places.get(row[0]) or int(row[0])) : start + (places.get(row[1]) or int(row[1]))]
        for row in PAYLOADS["First mask behind an image"][0]
    ]
    assert parts == [
        b"shmcMSK\1",
        struct.pack("<I", 3),
        struct.pack("<I", 2),
        struct.pack("<2i", 3, 5),
        struct.pack("<2i", 7, -9),
        struct.pack("<I", zlib.crc32(data[:-4])),
    ]
    assert b"".join(parts) == data


def test_the_source_behind_an_image() -> None:
    payload = attached_source.attach_source(b"image", b"source")
    rows = PAYLOADS["Source behind an image"][0]
    footer = payload[-sum(int(row[1]) for row in rows) :]
    magic, packed, length = (footer[int(row[0]) : int(row[0]) + int(row[1])] for row in rows)
    assert magic == b"shmcSRC\1"
    assert int.from_bytes(length, "little") == len(b"source")
    start = len(payload) - len(footer) - int.from_bytes(packed, "little")
    assert payload[:start] == b"image"
    assert zlib.decompress(payload[start : -len(footer)]) == b"source"


def test_the_parts_of_a_payload() -> None:
    payload = b"".join(parts.join_parts([b"first", b"second"]))
    assert payload[:8] == b"shmcPRT\1"
    assert struct.unpack_from("<7Q", payload, 8) == (5, 6, 0, 0, 0, 0, 0)
    assert payload[64:69] == b"first"
    assert payload[128:134] == b"second"


def test_the_vocabulary(small_vocabulary: shmcache.Vocabulary) -> None:
    words, arrays, version = unpacked(small_vocabulary.to_bytes(), b"SHMCvoc\0", PAYLOADS["Vocabulary"])
    assert version == vocabulary._VERSION
    assert words == {name: getattr(small_vocabulary, name) for name in words}
    gaps = [small_vocabulary.is_gap(token) for token in range(small_vocabulary.size)]
    np.testing.assert_array_equal(arrays.pop("is_gap"), gaps)
    assert len(arrays) == 4
    assert_same(arrays, [small_vocabulary.flat, small_vocabulary])


def test_the_trie(small_vocabulary: shmcache.Vocabulary) -> None:
    found = small_vocabulary.trie
    words, arrays, version = unpacked(found.to_bytes(), b"SHMCtri\0", PAYLOADS["Trie"])
    assert version == trie._VERSION
    assert words == {name: getattr(found, name) for name in words}
    assert len(arrays) == 8
    assert_same(arrays, [found])


def documented_messages(heading: str) -> dict[str, list[str]]:
    return {row[0].strip("`"): NAMED.findall(row[1]) for row in WIRE[heading][0]}


def test_the_messages_and_their_fields() -> None:
    to_manager = documented_messages("From client to manager"), documented_messages("From worker to manager")
    to_others = documented_messages("From manager to client"), documented_messages("From manager to worker")
    assert set(to_manager[0]) == {kind.op for kind in wire.FROM_CLIENT}
    assert set(to_manager[1]) == {kind.op for kind in wire.FROM_WORKER}
    documented = {op: names for messages in (*to_manager, *to_others) for op, names in messages.items()}
    assert documented == {op: [name for name, _ in checks] for op, checks in wire._FIELDS.items()}
    assert len(documented) == sum(map(len, (*to_manager, *to_others)))


def test_the_bounds_of_messages() -> None:
    stated = numbers_by_name(WIRE["Frame"][0])
    for name, value in stated.items():
        home = next(one for one in (wire, wire_fields, import_module("shmcache.limits")) if hasattr(one, name))
        assert getattr(home, name) == value, name
    frame = wire.encode(wire.WarmUp())
    length = stated["LENGTH_BYTES"]
    assert int.from_bytes(frame[:length], "little") == len(frame) - length


def assert_bounds(check: Any, stated: str, subject: str) -> None:
    """Tries the values at and beyond the bounds that are stated for a field."""
    kind, _, rest = stated.partition(", ")
    good: list[Any]
    bad: list[Any]
    if stated.startswith("word: "):
        good, bad = NAMED.findall(stated), ["other", None]
        # No word is left out: the refusal names all of them.
        with pytest.raises(WireError, match=f"one of {', '.join(good)}$"):
            check("other")
    elif kind == "text":
        good, bad = ["x" * wire_fields.TEXT_CHARACTERS_MAX], ["x" * (wire_fields.TEXT_CHARACTERS_MAX + 1), b"x"]
    elif kind == "map":
        good, bad = [{}, {"a": [1, "b", None]}], [{1: 2}, [], {"a": [[[[[[1]]]]]]}]
    else:
        low, high = map(number_of, rest.removesuffix(", or none").split(" to "))
        good, bad = [low, high], [low - 1, high + 1]
        if kind == "bytes":
            good, bad = [bytes(low), bytes(high)], [bytes(high + 1), "x" * low]
            if low:
                bad.append(bytes(low - 1))
                (good if rest.endswith("or none") else bad).append(b"")
    for value in good:
        assert check(value) == value, subject
    for value in bad:
        with pytest.raises(WireError):
            check(value)


def test_what_each_field_may_hold() -> None:
    general: dict[str, str] = {}
    particular: dict[tuple[str, str], str] = {}
    for name, ops, value in WIRE["Values"][0]:
        if not ops:
            assert name.strip("`") not in general
            general[name.strip("`")] = value
        for op in NAMED.findall(ops):
            particular[op, name.strip("`")] = value
    unused = set(general) | {name for _, name in particular}
    for op, checks in wire._FIELDS.items():
        for name, check in checks:
            unused.discard(name)
            assert (name in general) != ((op, name) in particular), f"{name} of {op} is stated once"
            assert_bounds(check, general.get(name) or particular[op, name], f"{name} of {op}")
    assert not unused
