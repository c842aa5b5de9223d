"""From an image to legal tokens, step by step.

Knows images and vocabularies. Must never know where an image came from, nor how many processes use it.
"""
