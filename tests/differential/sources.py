"""Sources that engines are compared on: some written by hand, and random ones from a seeded source of randomness."""

from __future__ import annotations

from random import Random
from typing import Any

PERSON: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
        "tags": {"type": "array", "items": {"type": "string", "maxLength": 5}, "maxItems": 3},
    },
    "required": ["name", "age"],
    "additionalProperties": False,
}
NODE: dict[str, Any] = {
    "type": "object",
    "properties": {"value": {"type": "integer"}, "next": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/node"}]}},
    "required": ["value", "next"],
    "additionalProperties": False,
}
SCHEMAS: dict[str, Any] = {
    "person": PERSON,
    "recursion": {"$ref": "#/$defs/node", "$defs": {"node": NODE}},
    "open object": {
        "type": "object",
        "properties": {"a": {"type": "boolean"}, "ab": {"type": "null"}},
        "required": ["ab"],
    },
    "values of names": {"type": "object", "additionalProperties": {"type": "array", "items": {"type": "null"}}},
    "number": {"type": "number"},
    "integer": {"type": "integer"},
    "integer in bounds": {"type": "integer", "minimum": -17, "exclusiveMaximum": 1200},
    "number in bounds": {"type": "number", "minimum": -1.5, "exclusiveMaximum": 10},
    "constants": {"enum": ["a", "ab", 1, None, True, [1, "x"], {"a": 1}]},
    "lengths": {"type": "string", "minLength": 2, "maxLength": 4},
    "pattern": {"type": "string", "pattern": "^a[0-9]+é?$"},
    "prefix items": {
        "type": "array",
        "prefixItems": [{"type": "integer"}, {"type": "boolean"}],
        "items": False,
        "minItems": 2,
    },
    "counted items": {"type": "array", "items": {"type": "boolean"}, "minItems": 2, "maxItems": 4},
    "union": {"anyOf": [{"type": "integer"}, {"type": "array", "items": {"type": "string"}}, {"const": "a"}]},
    "anything": {},
}

EXPRESSIONS = [
    "[a-c]+é?",
    "(ab|a)*b{2,4}",
    r"[0-9]{1,3}(\.[0-9]+)?",
    "[^x]*",
    "(true|false|null)+",
    r"[^\n]{3,5}",
    "(a|ab)(c|bcd)*",
    "(?:[é-ü]|日本)+😀?",
    "x(ab*)?y",
    "(a*)*b|c",
]

GRAMMARS = [
    'root ::= "a" root "b" | ""',
    'root ::= value ("," value)*\nvalue ::= [0-9]+ | "(" root ")"',
    'root ::= sum\nsum ::= product ("+" product)*\nproduct ::= atom ("*" atom)*\natom ::= [a-c] | "(" sum ")"',
    'root ::= "é" [^a-z] "😀"{1,3} | [日本]+',
    'root ::= item{2,4}\nitem ::= "ab" | "a" | "b"?  "c"',
    'root ::= ("true" | "false")\n# a comment\n  | "null" other\nother ::= "" | "\\n" other',
]

MACROS = [
    'root ::= Regex("a+b|é[0-9]{2}") "x"',
    'root ::= "<" Substring("ab", "abc", "a") ">"',
    'root ::= TagDispatch(("<f", call), ("[", list))\ncall ::= "=" [ab] ">"\nlist ::= [0-9]* "]"',
    'root ::= TagDispatch(("<f", call), excludes=("x"), loop_after_dispatch=false)\ncall ::= "=" [ab] ">"',
    'root ::= "a" TagDispatch(("ab", call), loop_after_dispatch=true)\ncall ::= "1" | "2" call',
]

_ATOMS = ["a", "b", "1", "x", "é", "😀", ".", "[ab]", "[^a]", "\\d", "\\w", "\\W", "\\s", "\\S", "[a-c1-9]", "\\."]
_MORE_ATOMS = ["[^\\d\\s]", "\\x41", "\\u00e9", "[é-ü]", "-", "\\n", "(?:)", "true", "\\{"]
_QUANTIFIERS = ["*", "+", "?", "{2}", "{1,2}", "{0,1}", "{2,}", "{0,3}", "*?", "+?", "??"]


def random_pattern(rng: Random, depth: int = 3) -> str:
    """A regular expression whose meaning ``re`` shares."""
    kind = rng.random()
    if not depth or kind < 0.3:
        return rng.choice(_ATOMS + _MORE_ATOMS)
    inner = [random_pattern(rng, depth - 1) for _ in range(rng.randint(1, 4))]
    if kind < 0.55:
        return "".join(inner)
    if kind < 0.7:
        return f"(?:{'|'.join(inner)})"
    if kind < 0.75:
        return f"({inner[0]})"
    return f"(?:{inner[0]}){rng.choice(_QUANTIFIERS)}"


_TERMINALS = ['"a"', '"b"', '"ab"', '"é"', '"\\n"', '"1"', '""', "[a-c]", "[^a]", "[1-9é]", '"[["', '"\\x41"', '"😀"']
_REPEATS = ["*", "+", "?", "{2}", "{1,2}", "{0,1}", "{2,}", "{0,3}"]


def random_ebnf(rng: Random) -> str:
    """A grammar of one to three rules that may recurse in any way."""
    names = ["root", "one", "two"][: rng.randint(1, 3)]
    rules = []
    for name in names:
        options = [_ebnf_body(rng, 3, names) for _ in range(rng.randint(1, 2))]
        rules.append(f"{name} ::= {' | '.join([*options, rng.choice(_TERMINALS)])}")
    return "\n".join(rules)


def _ebnf_body(rng: Random, depth: int, names: list[str]) -> str:
    kind = rng.random()
    if not depth or kind < 0.3:
        return rng.choice(_TERMINALS)
    if kind < 0.5:
        return rng.choice(names)
    inner = [_ebnf_body(rng, depth - 1, names) for _ in range(rng.randint(1, 3))]
    if kind < 0.7:
        return " ".join(inner)
    if kind < 0.82:
        return f"({' | '.join(inner)})"
    return f"({inner[0]}){rng.choice(_REPEATS)}"
