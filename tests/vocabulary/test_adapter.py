"""A missing library is named together with the extra that brings it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from shmcache.vocabulary.adapter import import_library, known_stop_token_ids
from shmcache.vocabulary.vocabulary import Vocabulary


@pytest.mark.parametrize(
    ("module", "extra", "method", "argument"),
    [
        ("tokenizers", "huggingface", "from_huggingface", "tokenizer.json"),
        ("sentencepiece", "sentencepiece", "from_sentencepiece", "tokenizer.model"),
        ("sentencepiece", "sentencepiece", "from_mistral", "tokenizer.model.v3"),
    ],
)
def test_missing_library(monkeypatch: pytest.MonkeyPatch, module: str, extra: str, method: str, argument: str) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=rf"needs '{module}'.*pip install 'shmcache\[{extra}\]'"):
        getattr(Vocabulary, method)(argument)


def test_missing_mistral_common(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setitem(sys.modules, "mistral_common", None)
    with pytest.raises(ImportError, match=r"pip install 'shmcache\[mistral\]'"):
        Vocabulary.from_mistral()


def test_a_library_that_lacks_something_says_so_itself(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "broken_library.py").write_text("import a_library_that_is_not_there\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ModuleNotFoundError, match="a_library_that_is_not_there"):
        import_library("broken_library", extra="none")


def test_known_stop_tokens() -> None:
    special = {"<s>": 1, "</s>": 2, "<|im_start|>": 3, "<|im_end|>": 4}
    assert known_stop_token_ids(special) == [2, 4]
