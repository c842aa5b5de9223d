"""Trees of draft tokens, as speculative decoding makes them: the mask at every node that allowed tokens lead to.

Owns the shape of a tree, checked once, and the walk over it. Must never know how a matcher decides.

A tree of n nodes is three arrays: the first child of each node, its next sibling, -1 for none, and its token. Node 0 is
the root: where the matcher is, so that its token has been accepted already and is not looked at.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

NO_NODE = -1
ROOT = 0


class Walker(Protocol):
    """What the walk asks of a matcher that is its own to move."""

    def accept_token(self, token_id: int) -> bool:
        """Moves on, or says that it cannot."""

    def rollback(self, num_tokens: int = 1) -> None:
        """Takes back steps."""

    def is_terminated(self) -> bool:
        """Whether nothing more is accepted."""

    def fill_next_token_bitmask(self, bitmask: Any, index: int = 0) -> bool:
        """Writes one row."""


@dataclass(frozen=True, slots=True)
class DraftTree:
    """A tree whose nodes each have one parent at most; nodes that the root does not lead to are in no mask's way."""

    first_child: list[int]
    next_sibling: list[int]
    tokens: list[int]

    @staticmethod
    def of(next_token: Any, next_sibling: Any, draft_tokens: Any) -> DraftTree:
        """The tree of three arrays or tensors of integers; raises ValueError for what is no tree."""
        first_child = _integers(next_token, "retrieve_next_token")
        siblings = _integers(next_sibling, "retrieve_next_sibling")
        tokens = _integers(draft_tokens, "draft_tokens")
        count = len(first_child)
        if not count or len(siblings) != count or len(tokens) != count:
            raise ValueError(
                f"a draft tree has as many children, siblings and tokens as nodes, and at least one, "
                f"not {count}, {len(siblings)} and {len(tokens)}"
            )
        has_parent = [False] * count
        has_parent[ROOT] = True  # The root has none, and may have none.
        for name, targets in (("retrieve_next_token", first_child), ("retrieve_next_sibling", siblings)):
            for node, target in enumerate(targets):
                if target == NO_NODE:
                    continue
                if not 0 <= target < count:
                    raise ValueError(f"{name}[{node}] is {target}, outside {NO_NODE}..{count - 1}")
                if has_parent[target]:
                    raise ValueError(f"{name}[{node}] leads to node {target}, to which another way leads already")
                has_parent[target] = True
        if siblings[ROOT] != NO_NODE:
            raise ValueError("the root of a draft tree has no siblings")
        return DraftTree(first_child, siblings, tokens)

    def __len__(self) -> int:
        return len(self.tokens)

    def children(self, node: int) -> Iterator[int]:
        """The children of a node, in order."""
        child = self.first_child[node]
        while child != NO_NODE:
            yield child
            child = self.next_sibling[child]

    def fill(
        self, walker: Walker, bitmask: Any, seconds_max: float, now: Callable[[], float] = time.perf_counter
    ) -> bool:
        """Writes a row for the root, for every node that is reached, and 0 for a child that is not allowed.

        Rows behind such a child, and of nodes that the root does not lead to, are left as they are. ``walker`` ends
        where a walk leaves it. False where ``seconds_max`` (0 or less: no limit) had passed before the last node.
        """
        deadline = now() + seconds_max
        depth = 0
        pending = [(ROOT, 0)]
        while pending:
            node, depth_before = pending.pop()
            if seconds_max > 0 and node != ROOT and now() > deadline:
                return False
            walker.rollback(depth - depth_before)
            depth = depth_before
            if node != ROOT:
                if not walker.accept_token(self.tokens[node]):
                    bitmask[node] = 0
                    continue
                depth += 1
            walker.fill_next_token_bitmask(bitmask, node)
            if not walker.is_terminated():
                pending.extend((child, depth) for child in reversed(list(self.children(node))))
        return True


def _integers(values: Any, name: str) -> list[int]:
    """A line of integers; those of a tensor in main memory too."""
    array = values if isinstance(values, np.ndarray) else np.asarray(values)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise ValueError(f"{name} must be integers in one dimension, not {array.dtype} of shape {array.shape}")
    plain: list[int] = array.tolist()
    return plain
