"""The tables of formats and styles in the documentation, against the code."""

from __future__ import annotations

import re

from shmcache.grammar.json_schema.styles import STYLES, UNSUPPORTED_STYLES
from shmcache.grammar.structural_tag.formats import FORMATS
from shmcache.grammar.structural_tag.writer import SYNTAXES, UNSUPPORTED_SYNTAXES
from tests.grammar.structural_tag_cases import CASES
from tests.grammar.test_json_schema_documentation import section
from tests.grammar.test_structural_tag_tokens import CASES as TOKEN_CASES
from tests.grammar.tool_call_style_cases import WRITERS, written


def names(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def rows(title: str) -> list[list[str]]:
    """The cells of the first table under a heading, without its head."""
    table = section(title).strip().partition("\n\n")[0]
    listed = [re.split(r"(?<!\\)\|", line)[1:-1] for line in table.splitlines() if line.startswith("|")]
    return listed[2:]


def test_the_formats_and_their_fields_are_those_of_the_code() -> None:
    documented = {
        kind: names(fields) for kinds, fields, _ in rows("Formats of structural tags") for kind in names(kinds)
    }
    assert documented == {kind: list(fields) for kind, fields in FORMATS.items()}


def test_every_format_has_cases() -> None:
    spoken = str([case.format for case in CASES]) + str([case[1] for case in TOKEN_CASES])
    assert {kind for kind in FORMATS if f"'type': '{kind}'" not in spoken} == {"qwen_xml_parameter"}


def test_the_styles_are_those_of_the_code() -> None:
    table = rows("Styles of tool calls")
    assert [name for first, *_ in table for name in names(first)] == list(STYLES)
    for (style,), shown in [(names(first), names(second.replace("\\|", "|"))) for first, second in table]:
        if style in WRITERS and style != "deepseek_v4_1_xml":
            expected = written(style, [("NAME", "VALUE")]).replace('"string"', '"TYPE"').replace("\n", "")
            assert shown[0] == expected
    refused = next(line for line in section("Styles of tool calls").splitlines() if line.startswith("Refused:"))
    assert names(refused) == list(UNSUPPORTED_STYLES)


def test_the_syntaxes_are_those_of_the_code() -> None:
    (meaning,) = [last for kind, _, last in rows("Formats of structural tags") if names(kind) == ["grammar"]]
    assert all(f"`{one}`" in meaning for one in UNSUPPORTED_SYNTAXES)
    assert all(one.upper() in meaning for one in SYNTAXES)
