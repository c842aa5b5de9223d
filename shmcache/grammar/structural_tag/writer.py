"""Structural tags as rules.

Owns the meaning of every format. Must never know how a document is read, nor the languages inside it.

Formats are written from the innermost outwards, as the list of formats has them behind the one they stand in; what a
format inherits from those around it, the ends of the tag in which it comes last, goes the other way before that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from shmcache.errors import LimitError, SourceError, UnsupportedError
from shmcache.grammar import dispatch as dispatching
from shmcache.grammar.ir import EMPTY, Choice, Expression, Grammar, Graph, Literal, Reference, Repeat, Sequence, Tokens
from shmcache.grammar.json_schema.options import JsonSchemaOptions
from shmcache.grammar.json_schema.styles import STYLES, UNSUPPORTED_STYLES
from shmcache.grammar.structural_tag import free_content
from shmcache.grammar.structural_tag.embedding import Embedding
from shmcache.grammar.structural_tag.formats import Format
from shmcache.grammar.structural_tag.free_content import NO_ENDS, Ends
from shmcache.grammar.structural_tag.reader import read_tag
from shmcache.limits import STATES_MAX, Budget

ROOT = "root"
SYNTAXES = ("ebnf",)
UNSUPPORTED_SYNTAXES = ("lark",)

# Formats of which one part alone is there, so that it is last where they are.
_ALTERNATIVES = frozenset(("or", "optional"))
_REPEATING = frozenset(("sequence", "plus", "star", "repeat", "dispatch", "token_dispatch"))
_UNLIMITED = frozenset(("any_text", "any_tokens", "triggered_tags", "token_triggered_tags"))


def structural_tag_grammar(document: Any, budget: Budget) -> Grammar:
    """The grammar of a structural tag given as a parsed JSON document.

    Raises :class:`SourceError` (with a JSON pointer) for what is malformed, :class:`UnsupportedError` for what is not
    enforced, and :class:`LimitError`.
    """
    return _Writer(read_tag(document, budget), budget).grammar()


class _Writer:
    def __init__(self, formats: list[Format], budget: Budget) -> None:
        self._formats = formats
        self._budget = budget
        self._embedding = Embedding(budget)
        self._ends = _inherited_ends(formats)
        self._written: list[Expression] = [EMPTY] * len(formats)
        self._rules: dict[str, Expression] = {}
        self._write: dict[str, Callable[[Format, Ends], Expression]] = {
            "const_string": self._const_string,
            "json_schema": self._json_schema,
            "qwen_xml_parameter": self._json_schema,
            "any_text": self._any_text,
            "grammar": self._grammar,
            "regex": self._regex,
            "token": self._token,
            "exclude_token": self._exclude_token,
            "any_tokens": self._any_tokens,
            "sequence": self._sequence,
            "or": self._or,
            "tag": self._tag,
            "triggered_tags": self._triggered_tags,
            "token_triggered_tags": self._token_triggered_tags,
            "tags_with_separator": self._tags_with_separator,
            "optional": self._optional,
            "plus": self._plus,
            "star": self._star,
            "repeat": self._repeat,
            "dispatch": self._dispatch,
            "token_dispatch": self._token_dispatch,
        }

    def grammar(self) -> Grammar:
        """The grammar of the outermost format."""
        for at in range(len(self._formats) - 1, -1, -1):
            one = self._formats[at]
            self._budget.check_time()
            self._written[at] = self._write[one.type](one, self._ends[at])
        return self._embedding.with_root(ROOT, {**self._rules, ROOT: self._written[0]})

    def _parts(self, one: Format) -> list[Expression]:
        return [self._written[child] for child in one.children]

    def _ruled(self, expression: Expression) -> Expression:
        """What may stand in several places: a call of a rule with that body, unless it is small."""
        if isinstance(expression, (Literal, Reference, Tokens)):
            return expression
        name = f"part_{len(self._rules)}"
        self._rules[name] = expression
        return Reference(name)

    def _const_string(self, one: Format, _: Ends) -> Expression:
        return _literal(one.fields["value"])

    def _json_schema(self, one: Format, _: Ends) -> Expression:
        fields = one.fields
        style = "qwen_xml" if one.type == "qwen_xml_parameter" else fields["style"]
        if style in UNSUPPORTED_STYLES:
            raise _unsupported(f"the style {style!r}", f"style {style}", f"{one.pointer}/style")
        if style not in STYLES:
            known = ", ".join((*STYLES, *UNSUPPORTED_STYLES))
            raise SourceError(f"the style must be one of {known}", pointer=f"{one.pointer}/style")
        whitespace_max = fields.get("max_whitespace_cnt")
        if whitespace_max is not None and whitespace_max > STATES_MAX:
            raise LimitError("max_whitespace_cnt is too large", limit="states", value=STATES_MAX)
        options = JsonSchemaOptions(max_whitespace_cnt=whitespace_max, any_order=fields.get("any_order", False))
        excludes = tuple(sorted(set(fields.get("excludes", ()))))
        return self._embedding.schema(fields["json_schema"], style, options, excludes, one.schema_pointer)

    def _any_text(self, one: Format, ends: Ends) -> Expression:
        fields = one.fields
        return free_content.any_text(fields["excludes"], fields["max_chars"], fields["max_tokens"], ends, self._budget)

    def _grammar(self, one: Format, _: Ends) -> Expression:
        syntax = one.fields["syntax"]
        if syntax in UNSUPPORTED_SYNTAXES:
            raise _unsupported(f"the syntax {syntax!r}", f"syntax {syntax}", f"{one.pointer}/syntax")
        if syntax not in SYNTAXES:
            known = ", ".join((*SYNTAXES, *UNSUPPORTED_SYNTAXES))
            raise SourceError(f"the syntax must be one of {known}", pointer=f"{one.pointer}/syntax")
        return self._embedding.grammar(one.fields["grammar"], f"{one.pointer}/grammar")

    def _regex(self, one: Format, _: Ends) -> Expression:
        return self._embedding.regex(one.fields["pattern"], f"{one.pointer}/pattern")

    def _token(self, one: Format, _: Ends) -> Expression:
        return Tokens((one.fields["token"],))

    def _exclude_token(self, one: Format, ends: Ends) -> Expression:
        return free_content.one_token(one.fields["exclude_tokens"], ends)

    def _any_tokens(self, one: Format, ends: Ends) -> Expression:
        return free_content.any_tokens(one.fields["exclude_tokens"], one.fields["max_tokens"], ends)

    def _sequence(self, one: Format, _: Ends) -> Expression:
        return Sequence(tuple(self._parts(one)))

    def _or(self, one: Format, _: Ends) -> Expression:
        return Choice(tuple(self._parts(one)))

    def _tag(self, one: Format, _: Ends) -> Expression:
        return self._behind(one, "")

    def _behind(self, tag: Format, trigger: str | None) -> Expression:
        """A tag without the trigger that its beginning begins with; None: without its whole beginning."""
        begin, end = tag.fields["begin"], tag.fields["end"]
        first: Expression = EMPTY
        if trigger is not None:
            first = _literal(begin[len(trigger) :]) if isinstance(begin, str) else begin
        last = end if isinstance(end, Tokens) else _choice([_literal(text) for text in end])
        return Sequence((first, *self._parts(tag), last))

    def _triggered_tags(self, one: Format, ends: Ends) -> Expression:
        tags = [self._formats[child] for child in one.children]
        triggers: tuple[str, ...] = tuple(dict.fromkeys(one.fields["triggers"]))
        rules = [(trigger, tag) for tag, trigger in zip(tags, _string_triggers(one, tags, triggers), strict=True)]
        # A trigger without tags leads nowhere, so it is in effect excluded.
        used = {trigger for trigger, _ in rules}
        unused = tuple(trigger for trigger in triggers if trigger not in used)
        excludes = tuple(dict.fromkeys((*one.fields["excludes"], *ends.filled_texts, *unused)))

        def free(*, is_loop: bool) -> Expression:
            return dispatching.dispatch(
                [(trigger, self._behind(tag, trigger)) for trigger, tag in rules],
                is_loop=is_loop,
                excludes=excludes,
                budget=self._budget,
            )

        return self._of_tags(one, tags, free)

    def _token_triggered_tags(self, one: Format, ends: Ends) -> Expression:
        tags = [self._formats[child] for child in one.children]
        triggers = dict.fromkeys(one.fields["trigger_tokens"])
        for tag in tags:
            begin = tag.fields["begin"]
            if not isinstance(begin, Tokens):
                raise SourceError("these tags must begin with a token", pointer=f"{tag.pointer}/begin")
            if begin.names[0] not in triggers:
                raise SourceError("no trigger is this token", pointer=f"{tag.pointer}/begin/token")
        used = {tag.fields["begin"].names[0] for tag in tags}
        excludes = (*one.fields["exclude_tokens"], *ends.tokens, *(token for token in triggers if token not in used))

        def free(*, is_loop: bool) -> Expression:
            return dispatching.token_dispatch(
                [(tag.fields["begin"].names[0], self._behind(tag, None)) for tag in tags],
                is_loop=is_loop,
                exclude_tokens=tuple(dict.fromkeys(excludes)),
            )

        return self._of_tags(one, tags, free)

    def _of_tags(self, one: Format, tags: list[Format], free: Callable[..., Expression]) -> Expression:
        """Triggered tags: with ``at_least_one`` they begin with a tag, and nothing stands before it."""
        if not one.fields["at_least_one"]:
            return free(is_loop=not one.fields["stop_after_first"])
        for tag in tags:
            content = tag.children[0]
            self._written[content] = self._ruled(self._written[content])
        first = _choice([self._behind(tag, "") for tag in tags])
        return first if one.fields["stop_after_first"] else Sequence((first, free(is_loop=True)))

    def _tags_with_separator(self, one: Format, _: Ends) -> Expression:
        tag = self._ruled(_choice(self._parts(one)))
        tags: Expression = tag
        if not one.fields["stop_after_first"]:
            tags = Sequence((tag, Repeat(Sequence((_literal(one.fields["separator"]), tag)), 0, None)))
        return tags if one.fields["at_least_one"] else Choice((EMPTY, tags))

    def _optional(self, one: Format, _: Ends) -> Expression:
        return Choice((EMPTY, *self._parts(one)))

    def _plus(self, one: Format, _: Ends) -> Expression:
        # Not as a repetition, which would write the content twice, and nested ones without end.
        return Graph(2, ((0, self._parts(one)[0], 1), (1, EMPTY, 0)), 1)

    def _star(self, one: Format, _: Ends) -> Expression:
        return Repeat(self._parts(one)[0], 0, None)

    def _repeat(self, one: Format, _: Ends) -> Expression:
        minimum, maximum = one.fields["min"], one.fields["max"]
        if 0 <= maximum < minimum:
            raise SourceError("max is less than min", pointer=f"{one.pointer}/max")
        if max(minimum, maximum) > STATES_MAX:
            raise LimitError("a repetition asks for too many states", limit="states", value=STATES_MAX)
        return Repeat(self._ruled(self._parts(one)[0]), minimum, None if maximum < 0 else maximum)

    def _dispatch(self, one: Format, _: Ends) -> Expression:
        return dispatching.dispatch(
            zip(one.fields["rules"], self._parts(one), strict=True),
            is_loop=one.fields["loop"],
            excludes=one.fields["excludes"],
            budget=self._budget,
        )

    def _token_dispatch(self, one: Format, _: Ends) -> Expression:
        return dispatching.token_dispatch(
            zip(one.fields["rules"], self._parts(one), strict=True),
            is_loop=one.fields["loop"],
            exclude_tokens=one.fields["exclude_tokens"],
        )


def _inherited_ends(formats: list[Format]) -> list[Ends]:
    """For each format the ends of the tag whose content it is part of."""
    ends = [NO_ENDS] * len(formats)
    for at, one in enumerate(formats):
        if one.type == "tag":
            end = one.fields["end"]
            ends[one.children[0]] = Ends(tokens=end.names) if isinstance(end, Tokens) else Ends(texts=end)
        elif one.type in _ALTERNATIVES:
            for child in one.children:
                ends[child] = ends[at]
        elif one.type in _REPEATING:
            for child in one.children:
                ends[child] = replace(ends[at], is_last=False)
            if one.type == "sequence":
                ends[one.children[-1]] = ends[at]
        if one.type in _UNLIMITED and ends[at].is_last and ends[at].texts and not ends[at].filled_texts:
            raise SourceError(
                "what comes last in a tag is free, so the tag must have an end that is not empty", pointer=one.pointer
            )
    return ends


def _string_triggers(one: Format, tags: list[Format], triggers: tuple[str, ...]) -> list[str]:
    """For each tag the one trigger that its beginning begins with."""
    found: list[str] = []
    known = set(triggers)
    lengths = sorted({len(trigger) for trigger in triggers})
    for tag in tags:
        begin = tag.fields["begin"]
        if not isinstance(begin, str):
            raise SourceError("these tags must begin with a text", pointer=f"{tag.pointer}/begin")
        matching = [begin[:length] for length in lengths if length <= len(begin) and begin[:length] in known]
        if len(matching) != 1:
            count = "no trigger" if not matching else "more than one trigger"
            raise SourceError(f"{begin!r} begins with {count}", pointer=f"{tag.pointer}/begin")
        found += matching
    return found


def _literal(text: str) -> Expression:
    return Literal(text.encode()) if text else EMPTY


def _choice(options: list[Expression]) -> Expression:
    return options[0] if len(options) == 1 else Choice(tuple(options))


def _unsupported(what: str, feature: str, pointer: str) -> UnsupportedError:
    return UnsupportedError(f"{what} is not supported (at {pointer!r})", feature=feature, pointer=pointer)
