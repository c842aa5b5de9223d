"""A whole compiled grammar as one flat, position-independent byte string.

Knows automata and rows as arrays. Must never know in what memory an image lies.
"""
