"""The tables of cases against XGrammar, where it is installed: whatever it decides otherwise is recorded as such."""

from __future__ import annotations

import pytest

from tests.grammar.structural_tag_cases import CASES, Case
from tests.grammar.tool_call_style_cases import CASES as STYLE_CASES

xgrammar = pytest.importorskip("xgrammar", reason="pip install 'shmcache[differential]'")
testing = pytest.importorskip("xgrammar.testing")


@pytest.mark.parametrize("case", [*CASES, *STYLE_CASES], ids=lambda case: case.name)
def test_xgrammar_decides_as_recorded(case: Case) -> None:
    grammar = xgrammar.Grammar.from_structural_tag({"type": "structural_tag", "format": case.format})
    assert not case.differing or case.why
    assert set(case.differing) <= {*case.accepted, *case.rejected}
    for text in (*case.accepted, *case.rejected):
        expected = (text in case.accepted) != (text in case.differing)
        assert testing._is_grammar_accept_string(grammar, text) is expected, text
