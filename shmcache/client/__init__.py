"""Look up, ask, fall back: how a process uses the cache.

Knows grammars, shared memory and the manager's messages. Must never load what compiles before it has to compile here.
"""

import logging

from shmcache.client.grammar_cache import GrammarCache, connect

# Quiet unless the application wants to hear of it.
logging.getLogger("shmcache").addHandler(logging.NullHandler())

__all__ = ["GrammarCache", "connect"]
