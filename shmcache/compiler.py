"""The line from text to image.

Owns the order of the stages and nothing else. The compile worker runs it, and so does a process that compiles for
itself, so that a cached image equals a private one.
"""

from __future__ import annotations

from shmcache.automaton.build import build_automaton
from shmcache.errors import LimitError
from shmcache.grammar.key import Source
from shmcache.grammar.whole_tokens import with_token_ids
from shmcache.image.image import Image, write_image
from shmcache.limits import Budget
from shmcache.rows.build import RuleRows, build_rows
from shmcache.rows.warm_up import warm_up
from shmcache.vocabulary.vocabulary import Vocabulary

__all__ = ["RuleRows", "compile_image"]


def compile_image(
    source: Source, vocabulary: Vocabulary, *, budget: Budget, rule_rows: RuleRows | None = None
) -> bytes:
    """The image of ``source`` for ``vocabulary``, as bytes for :func:`shmcache.image.image.open_image`.

    ``rule_rows`` is the rule tier, where rows of rules that other grammars have too are found and left. Raises
    :class:`SourceError`, :class:`UnsupportedError`, or :class:`LimitError` when ``budget`` is exceeded.
    """
    try:
        grammar = source.grammar(budget)
        automaton = build_automaton(with_token_ids(grammar, vocabulary, budget), budget)
        # Kernels that no process of this host has compiled yet take most of a compile's whole time.
        with budget.paused():
            warm_up()
        rows = build_rows(automaton, vocabulary, rule_rows, budget)
    except RecursionError as error:
        raise LimitError("the source is nested too deeply", limit="depth") from error
    image = Image(
        key=source.key(vocabulary.fingerprint),
        vocabulary_fingerprint=vocabulary.fingerprint,
        vocabulary_size=vocabulary.size,
        width=vocabulary.width,
        automaton=automaton,
        rows=rows,
        warnings=grammar.warnings,
    )
    return write_image(image)
