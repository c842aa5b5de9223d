"""Structural tags: free text in which tool calls and other prescribed parts stand.

``plain`` brings what users hand over to plain data, ``formats`` is the table of formats and their fields, ``reader``
checks a document against it, and ``writer`` makes rules of what was read, with ``free_content`` for the parts in which
anything may stand and ``embedding`` for the schemas, grammars and patterns inside.
"""
