"""Automata × vocabulary → rows: which tokens each state accepts, which it rejects, and which depend on the caller.

Knows nothing of the text of a grammar, nor of shared memory.
"""
