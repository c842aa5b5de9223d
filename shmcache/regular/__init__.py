"""Regular languages as values: sets of code points, deterministic automata over ranges, and what can be done with them.

Knows nothing of grammars, JSON or tokens.
"""
