"""Look up, ask, fall back: how a process uses the cache.

Knows grammars, shared memory and the manager's messages. Must never load what compiles before it has to compile here.
"""

from shmcache.client.grammar_cache import GrammarCache, connect

__all__ = ["GrammarCache", "connect"]
