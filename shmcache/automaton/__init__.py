"""From grammar rules to byte automata whose edges are bytes or calls of other rules.

Knows nothing of the text the rules came from, nor of tokens.
"""
