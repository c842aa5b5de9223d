"""Text on a terminal: amounts with units, tables within 80 columns."""

from __future__ import annotations

import json

import click
import pytest

from shmcache_tools.output import COLUMNS_MAX, age_text, bytes_text, echo_json, limit_text, seconds_text, table


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1, "1 B"),
        (1023, "1023 B"),
        (1024, "1.00 KiB"),
        (4096, "4.00 KiB"),
        (10 * 1024 - 1, "10.0 KiB"),
        (123_456, "121 KiB"),
        (1 << 20, "1.00 MiB"),
        (512 << 20, "512 MiB"),
        (3 << 30, "3.00 GiB"),
        (5 << 40, "5.00 TiB"),
        (-4096, "-4.00 KiB"),
    ],
)
def test_bytes(count: int, text: str) -> None:
    assert bytes_text(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0 ns"),
        (87e-9, "87.0 ns"),
        (1e-6, "1.00 µs"),
        (2.345e-6, "2.35 µs"),
        (99.96e-6, "100 µs"),
        (0.045, "45.0 ms"),
        (1.0, "1.00 s"),
        (75.0, "75.0 s"),
        (1234.0, "1234 s"),
    ],
)
def test_seconds(seconds: float, text: str) -> None:
    assert seconds_text(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (119.0, "119 s"), (120.0, "2 min"), (7200.0, "2 h"), (200_000.0, "2 d")]
)
def test_ages(seconds: float, text: str) -> None:
    assert age_text(seconds) == text


def test_limits() -> None:
    assert limit_text(-1) == "none"
    assert limit_text(1 << 30) == "1.00 GiB"


def test_columns_line_up() -> None:
    lines = table([("a", "1"), ("long", "22")], header=("name", "n"), align="<>").splitlines()
    assert [click.unstyle(line) for line in lines] == ["name   n", "a      1", "long  22"]


def test_a_table_stays_within_the_terminal() -> None:
    lines = table([("x" * 60, "y" * 60)]).splitlines()
    assert [len(line) for line in lines] == [COLUMNS_MAX]
    assert lines[0].endswith("…")


def test_no_rows_are_no_text() -> None:
    assert table([]) == ""


def test_a_document_is_json(capsys: pytest.CaptureFixture[str]) -> None:
    echo_json({"name": "é", "none": None})
    assert json.loads(capsys.readouterr().out) == {"name": "é", "none": None}
