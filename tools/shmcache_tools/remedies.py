"""What to do about each error that a user can meet.

Owns the sentences. Must never raise, nor know how an error came about beyond its code and details.
"""

from __future__ import annotations

from shmcache.errors import ShmCacheError

BY_CODE = {
    "SOURCE_ERROR": "correct the source at the place named above; `shmcache check FILE` tries it without a cache",
    "UNSUPPORTED": 'take the feature out of the source, or compile a JSON Schema with on_unsupported="ignore", which '
    "enforces the rest and warns; docs/languages.md lists what is enforced",
    "LIMIT": "make the source smaller",
    "SEGMENT": "`shmcache doctor` names what is foreign or damaged; a manager that starts (`shmcache serve`) replaces "
    "what it cannot use",
    "MANAGER_UNAVAILABLE": "start one with `shmcache serve`, or let a client start it; `shmcache doctor` says why one "
    "may not start",
    "NOT_FOUND": "`shmcache ls` lists what is there",
    "SHMCACHE_ERROR": "look into the manager's log (`shmcache doctor` names it) and report what it says",
    "WIRE": "manager and tool are of different versions: restart the manager with the version of this tool",
    "VOCABULARY_MISSING": "try again: a client sends its vocabulary when the cache has lost it",
}

BY_LIMIT = {
    "seconds": "raise SHMCACHE_COMPILE_SECONDS of the manager or the caller's timeout, or simplify the source",
    "states": "simplify the source: shorter bounds of repetition, fewer alternatives, smaller maxLength",
    "edges": "simplify the source: shorter bounds of repetition, fewer alternatives, smaller maxLength",
    "depth": "nest the source less deeply",
    "bytes": "split the source: it is larger than any that is taken",
    "source_bytes": "split the source: it is larger than any that is taken",
    "image_bytes": "split the source: what it compiles to is larger than any that is kept",
    "memory_bytes": "simplify the source, or give the worker more memory",
    "shm_bytes": "give /dev/shm more room (docker run --shm-size=2g), or clear the cache",
    "integer_digits": "write the number with fewer digits",
    "number_digits": "write the number with fewer digits",
    "expression_depth": "nest groups less deeply",
    "needs": "let fewer different keywords speak of the members of one object",
    "contains": "let fewer different keywords speak of the items of one array",
    "token_sets": "use fewer different sets of whole tokens",
    "token_set_ids": "use fewer or smaller sets of whole tokens",
    "stack_nodes": "nest rules less: fewer that call one another without ending",
    "configuration_entries": "write the grammar so that a text can be read in fewer ways",
    "waiting_compiles": "let one client wait for fewer compiles at once",
    "waiting_requests": "more workers (`shmcache serve --workers N`), or fewer requests at once",
    "compile_attempts": "this source ends the workers that compile it: simplify it, and report it",
}


def remedy_of(error: ShmCacheError) -> str:
    """What its user can do."""
    if error.code == "LIMIT":
        return BY_LIMIT.get(str(error.details.get("limit")), BY_CODE["LIMIT"])
    return BY_CODE.get(error.code, BY_CODE["SHMCACHE_ERROR"])
