"""``shmcache show``: one entry, with all that is known of it.

Owns the reading of its payload for people. Must never need a manager, nor write.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import click

from shmcache.errors import SegmentError
from shmcache.grammar.key import Source
from shmcache.memory.account import Entry
from shmcache.memory.layout import Tier
from shmcache.memory.names import Namespace
from shmcache.memory.segments import Mapping, map_segment
from shmcache_tools.entry_facts import Facts, check_prefix, entry_name, facts_of, find_one, source_of
from shmcache_tools.exit_codes import NotFoundError
from shmcache_tools.mappers import mappers
from shmcache_tools.options import json_option, namespace_option
from shmcache_tools.output import age_text, bytes_text, count_text, echo_json, heading, seconds_text, table, wrapped
from shmcache_tools.shared_stats import SharedView, open_view

SOURCE_LINES_MAX = 40
FORM_NAMES = ("bitset", "accepted ids", "rejected ids")


@click.command(
    "show",
    epilog="Example:  shmcache show 3f2a --full",
    short_help="Show one entry: source, options, automaton, rows.",
)
@click.argument("key_prefix", metavar="KEY", callback=check_prefix)
@namespace_option
@click.option("--full", is_flag=True, help=f"The whole source, not only {SOURCE_LINES_MAX} lines of it.")
@json_option
def command(key_prefix: str, namespace: str | None, full: bool, as_json: bool) -> None:
    """Show the entry whose key begins with KEY (hexadecimal digits).

    Of a grammar: its source in canonical form and its options, the size of its automaton, its rows by form, and what
    was ignored of the source. Exits with 3 when no entry has that key, 2 when several have.
    """
    view = open_view(Namespace.of(namespace))
    entry = find_one(view, key_prefix)
    facts = facts_of(view, entry, mappers(view.namespace.prefix))
    try:
        payload = _payload(map_segment(entry_name(view, entry)), entry)
    except FileNotFoundError:
        raise NotFoundError(f"the entry {facts.key[:16]} has just gone") from None
    source = source_of(view, entry) if entry.tier is Tier.GRAMMAR else None
    if as_json:
        told = None if source is None else {"kind": source.kind, "text": source.text, "options": dict(source.options)}
        echo_json({**asdict(facts), "payload": payload, "source": told})
        return
    _show(view, facts, payload)
    if source is not None:
        _show_source(source, full)


def _payload(mapping: Mapping, entry: Entry) -> dict[str, Any]:
    """What lies in the segment, in plain values. Raises :class:`SegmentError` where that is damaged."""
    if entry.tier is Tier.GRAMMAR:
        return _image(mapping, entry)
    if entry.tier is Tier.VOCABULARY:
        from shmcache.manager.parts import split_vocabulary
        from shmcache.vocabulary.vocabulary import Vocabulary

        vocabulary = Vocabulary.from_bytes(bytes(split_vocabulary(mapping.payload)[0]))
        return {
            "tokens": vocabulary.size,
            "width": vocabulary.width,
            "special_tokens": len(vocabulary.special_token_ids),
            "stop_tokens": list(vocabulary.stop_token_ids),
        }
    return {}


def _image(mapping: Mapping, entry: Entry) -> dict[str, Any]:
    import numpy as np

    from shmcache.image.image import open_image
    from shmcache.rows.row_table import NO_ROW

    image = open_image(mapping.payload, expected_key=entry.key)
    automaton, rows = image.automaton, image.rows
    forms = np.bincount(rows.form, minlength=len(FORM_NAMES)).tolist()
    if len(forms) != len(FORM_NAMES):
        raise SegmentError("the rows have a form that this version does not know")
    return {
        "vocabulary": image.vocabulary_fingerprint.hex(),
        "width": image.width,
        "rules": automaton.rule_count,
        "states": automaton.state_count,
        "edges": len(automaton.edge_target),
        "calls": len(automaton.call_rule),
        "rows": dict(zip(FORM_NAMES, forms, strict=True)),
        "states_with_row": int(np.count_nonzero(rows.state_accepted != NO_ROW)),
        "rows_bytes": sum(array.nbytes for array in rows.arrays()),
        "uncertain_lists": len(rows.uncertain_offset) - 1,
        "uncertain_tokens": len(rows.uncertain),
        "warnings": [asdict(warning) for warning in image.warnings],
    }


def _show(view: SharedView, facts: Facts, payload: dict[str, Any]) -> None:
    click.secho(facts.key, bold=True)
    pids = facts.mapped_by or []
    ages = [
        f"made {age_text(facts.age_seconds)} ago" if facts.age_seconds is not None else "",
        f"used {age_text(facts.idle_seconds)} ago" if facts.idle_seconds is not None else "",
        f"{facts.hits} uses, about" if facts.hits is not None else "",
    ]
    lines = [
        ("kind", f"{facts.kind or 'grammar'}, {facts.tier} tier, generation {facts.generation}"),
        ("segment", f"{view.namespace.prefix}-{view.control.instance:016x}-{facts.serial:x}"),
        ("charged", f"{bytes_text(facts.charged_bytes)} for {bytes_text(facts.payload_bytes)} of payload"),
        ("cost", f"{seconds_text(facts.cost_us / 1e6)} to make"),
        ("age", ", ".join(age for age in ages if age)),
        ("mapped by", ", ".join(map(str, pids)) or "no process that this user can see"),
    ]
    rows: dict[str, int] = payload.get("rows", {})
    if facts.tier == "grammar":
        lines += [
            ("vocabulary", f"{payload['vocabulary'][:16]}, masks of {payload['width']} bits"),
            ("automaton", f"{payload['rules']} rules, {payload['states']} states, {payload['edges']} byte edges"),
            ("", f"{count_text(payload['calls'], 'call')} of rules"),
            ("rows", ", ".join(f"{count} {form}" for form, count in rows.items() if count) or "none"),
            ("", f"of {payload['states_with_row']} states; matchers work out the others' where they come to them"),
            ("", f"{bytes_text(payload['rows_bytes'])}, {payload['uncertain_tokens']} uncertain tokens"),
        ]
    elif facts.tier == "vocabulary":
        special = f"{payload['special_tokens']} special, {len(payload['stop_tokens'])} stop"
        lines.append(("tokens", f"{payload['tokens']} ({special}), masks of {payload['width']} bits"))
    click.echo(table(lines))
    for warning in payload.get("warnings", []):
        where = f"{warning['feature']} at {warning['pointer'] or '/'}"
        click.echo(wrapped(f"warning: {where}: {warning['message']}"))


def _show_source(source: Source, full: bool) -> None:
    options = ", ".join(f"{name}={json.dumps(value)}" for name, value in source.options)
    heading(f"source, {source.kind}, in canonical form")
    if options:
        click.echo(wrapped(options))
    text = source.text
    if source.kind in ("json_schema", "structural_tag"):
        text = json.dumps(json.loads(text), indent=1, ensure_ascii=False)
    lines = text.splitlines()
    shown = lines if full else lines[:SOURCE_LINES_MAX]
    for line in shown:
        click.echo(line if full or len(line) <= 80 else line[:79] + "…")
    if len(shown) < len(lines):
        click.secho(f"{len(lines) - len(shown)} more lines: --full", dim=True)
