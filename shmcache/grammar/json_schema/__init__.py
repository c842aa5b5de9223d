"""JSON Schema: from a schema to the grammar of the JSON texts of its instances.

Owns the meaning of JSON Schema (2020-12, and drafts 4 to 2019-09 in their own spellings). Must never know tokens.

A schema is first brought to a normal form, in which siblings, references and applicators are gone: for each JSON type a
union of constraint records (``shapes``). The modules, each resting on those before it: ``resources`` (identifiers,
anchors), ``document`` (schemas, references), ``keywords`` (typed access), ``nodes`` (conjunctions of schemas);
``layout``, ``rules`` (whitespace, generic rules); ``numbers``, ``strings``, ``arrays``, ``objects`` (the records, with
``intervals``, ``number_automata``, ``multiples``, ``formats``, ``string_automata`` and ``counting`` below them);
``shapes``, ``complements``, ``evaluation``; ``refusals``, ``assertions``, ``reader`` (schema to shape); ``names``,
``finishing``, ``distinct`` (records made ready); ``exploration`` (what is satisfiable); ``members``,
``unordered_members``, ``object_expressions``, ``array_expressions``; ``front_end``.
"""

from __future__ import annotations

from shmcache.grammar.json_schema.front_end import builtin_json_grammar, json_schema_grammar
from shmcache.grammar.json_schema.options import JsonSchemaOptions

__all__ = ["JsonSchemaOptions", "builtin_json_grammar", "json_schema_grammar"]
