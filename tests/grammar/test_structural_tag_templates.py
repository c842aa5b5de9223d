"""Structural tags for the templates of well-known models: one call, several, text around them, and what is none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from shmcache.grammar.key import Source
from shmcache.limits import Budget
from shmcache.matcher.matcher import GrammarMatcher
from shmcache.vocabulary.vocabulary import Vocabulary
from tests.grammar.structural_tag_cases import (
    Format,
    const,
    free,
    of,
    regex,
    schema,
    separated,
    sequence,
    tag,
    triggered,
)
from tests.matcher.support import compiled
from tests.reference.grammar_recogniser import recognises

WEATHER: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1}},
    "required": ["city"],
}
CLOCK: dict[str, Any] = {"type": "object", "properties": {"zone": {"enum": ["UTC", "CET"]}}, "required": ["zone"]}
TOOLS = {"weather": WEATHER, "clock": CLOCK}


@dataclass(frozen=True, slots=True)
class Template:
    """A model's way to call tools, with texts that it admits and texts that it does not."""

    name: str
    format: Format
    accepted: tuple[str, ...]
    rejected: tuple[str, ...]


def named(name: str, arguments: dict[str, Any], key: str = "arguments") -> dict[str, Any]:
    """The schema of a call as one JSON object."""
    return {
        "type": "object",
        "properties": {"name": {"const": name}, key: arguments},
        "required": ["name", key],
    }


def tags(begin: str, end: Any, style: str = "json") -> list[Format]:
    """A tag for each tool, ``NAME`` in its beginning replaced."""
    return [tag(begin.replace("NAME", name), schema(one, style=style), end) for name, one in TOOLS.items()]


LLAMA = triggered(["<function="], *tags("<function=NAME>", "</function>"))
LLAMA_JSON = {"type": "or", "elements": [schema(named(name, one, "parameters")) for name, one in TOOLS.items()]}
QWEN = triggered(
    ["<tool_call>"],
    *(tag("<tool_call>\n", schema(named(name, one)), "\n</tool_call>") for name, one in TOOLS.items()),
)
QWEN_CODER = triggered(["<tool_call>"], *tags("<tool_call>\n<function=NAME>", "</function>\n</tool_call>", "qwen_xml"))
DEEPSEEK = sequence(
    free(excludes=["<｜tool▁calls▁begin｜>"]),
    of(
        "optional",
        tag(
            "<｜tool▁calls▁begin｜>",
            of(
                "plus",
                {"type": "or", "elements": tags("<｜tool▁call▁begin｜>NAME<｜tool▁sep｜>", "<｜tool▁call▁end｜>")},
            ),
            "<｜tool▁calls▁end｜>",
        ),
    ),
)
MISTRAL = triggered(["[TOOL_CALLS]"], *tags("[TOOL_CALLS]NAME[ARGS]", ""))
GLM = triggered(["<tool_call>"], *tags("<tool_call>NAME", "</tool_call>", "glm_xml"))
KIMI = sequence(
    const("<|tool_calls_section_begin|>"),
    of(
        "plus",
        {
            "type": "or",
            "elements": [
                sequence(
                    const(f"<|tool_call_begin|>functions.{name}:"),
                    regex("[0-9]+"),
                    tag("<|tool_call_argument_begin|>", schema(one), "<|tool_call_end|>"),
                )
                for name, one in TOOLS.items()
            ],
        },
    ),
    const("<|tool_calls_section_end|>"),
)
REASONING = sequence(
    tag("<think>", free(), "</think>"),
    separated("\n", *tags("<call:NAME>", "</call>"), at_least_one=True),
)

TEMPLATES = [
    Template(
        "Llama",
        LLAMA,
        ("Hi", '<function=weather>{"city": "Rome"}</function>', 'a<function=clock>{"zone":"UTC"}</function>b'),
        ("<function=", "<function=tides>{}</function>", '<function=weather>{"days": 1}</function>'),
    ),
    Template(
        "Llama, JSON",
        LLAMA_JSON,
        ('{"name": "clock", "parameters": {"zone": "CET"}}', '{"name":"weather","parameters":{"city":"é","days":2}}'),
        ('{"name": "clock", "parameters": {"city": "Rome"}}', '{"name": "tides", "parameters": {}}', "Hi"),
    ),
    Template(
        "Qwen",
        QWEN,
        ("", 'x<tool_call>\n{"name": "weather", "arguments": {"city": "Rome"}}\n</tool_call>\ny'),
        (
            '<tool_call>\n{"name": "weather"}\n</tool_call>',
            '<tool_call>{"name": "clock", "arguments": {"zone": "UTC"}}',
        ),
    ),
    Template(
        "Qwen Coder",
        QWEN_CODER,
        (
            (
                "<tool_call>\n<function=weather>\n<parameter=city>\nRome\n</parameter>\n<parameter=days>\n3\n</parameter>\n"
                "</function>\n</tool_call>"
            ),
            "Now:<tool_call>\n<function=clock><parameter=zone>UTC</parameter></function>\n</tool_call>",
        ),
        (
            "<tool_call>\n<function=weather>\n<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>",
            "<tool_call>\n<function=clock>\n<parameter=zone>\nGMT\n</parameter>\n</function>\n</tool_call>",
        ),
    ),
    Template(
        "DeepSeek",
        DEEPSEEK,
        (
            "No tool.",
            (
                'Well<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>clock<｜tool▁sep｜>{"zone": "UTC"}<｜tool▁call▁end｜>'
                '<｜tool▁call▁begin｜>weather<｜tool▁sep｜>{"city": "X"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>'
            ),
        ),
        (
            "<｜tool▁calls▁begin｜><｜tool▁calls▁end｜>",
            "<｜tool▁calls▁begin｜>",
            "<｜tool▁calls▁begin｜>x<｜tool▁calls▁end｜>",
        ),
    ),
    Template(
        "Mistral",
        MISTRAL,
        ("Hi", '[TOOL_CALLS]weather[ARGS]{"city": "Rome"}[TOOL_CALLS]clock[ARGS]{"zone": "UTC"}'),
        ("[TOOL_CALLS]", "[TOOL_CALLS]tides[ARGS]{}", "[TOOL_CALLS]weather[ARGS]{}"),
    ),
    Template(
        "GLM",
        GLM,
        (
            (
                "<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>Rome</arg_value>\n<arg_key>days</arg_key>\n"
                "<arg_value>2</arg_value>\n</tool_call>"
            ),
            "ok",
        ),
        (
            "<tool_call>weather\n</tool_call>",
            "<tool_call>clock<arg_key>zone</arg_key><arg_value>x</arg_value></tool_call>",
        ),
    ),
    Template(
        "Kimi",
        KIMI,
        (
            (
                "<|tool_calls_section_begin|><|tool_call_begin|>functions.clock:0<|tool_call_argument_begin|>"
                '{"zone": "UTC"}<|tool_call_end|><|tool_calls_section_end|>'
            ),
        ),
        ("", "<|tool_calls_section_begin|><|tool_calls_section_end|>"),
    ),
    Template(
        "reasoning first",
        REASONING,
        (
            '<think>Which?</think><call:clock>{"zone": "UTC"}</call>',
            '<think></think><call:clock>{"zone":"UTC"}</call>\n<call:weather>{"city": "x"}</call>',
        ),
        ("<think></think>", '<call:clock>{"zone": "UTC"}</call>', "<think></think></think>"),
    ),
]


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda template: template.name)
def test_templates(template: Template, small_vocabulary: Vocabulary) -> None:
    grammar = Source.structural_tag({"type": "structural_tag", "format": template.format}).grammar(Budget())
    matcher = GrammarMatcher(compiled(grammar, small_vocabulary))
    for text in template.accepted:
        assert recognises(grammar, text.encode()), text
        assert matcher.accept_string(text), text
        assert matcher.is_completed()
        matcher.reset()
    for text in template.rejected:
        assert not recognises(grammar, text.encode()), text
        assert not (matcher.accept_string(text) and matcher.is_completed()), text
        matcher.reset()
