"""The slow, obvious twin of ``shmcache.vocabulary.trie``: nested dictionaries, walked recursively without recursion.

Owns nothing but the definition. Must never share code with the trie it is compared with.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Node:
    """A prefix: the tokens that end here, and what follows."""

    token_ids: list[int] = field(default_factory=list)
    children: dict[int, Node] = field(default_factory=dict)


@dataclass
class ReferenceTrie:
    """The arrays of a trie as plain lists."""

    node_byte: list[int]
    node_depth: list[int]
    node_end: list[int]
    node_height: list[int]
    node_first_token: list[int]
    token_order: list[int]
    token_node: list[int]
    text_token_ids: list[int]


def reference_trie(tokens: list[bytes | None], special: set[int], width: int) -> ReferenceTrie:
    """The trie of every non-empty token that is not special and has an id below ``width``."""
    root = Node()
    text = [i for i, token in enumerate(tokens) if token and i not in special and i < width]
    for token_id in text:
        node = root
        for byte in tokens[token_id] or b"":
            node = node.children.setdefault(byte, Node())
        node.token_ids.append(token_id)

    out = ReferenceTrie([], [], [], [], [0], [], [-1] * len(tokens), text)
    # Entries are (node, its byte, its depth), or the number of a node whose subtree is finished.
    stack: list[tuple[Node, int, int] | int] = [(root, 0, 0)]
    while stack:
        entry = stack.pop()
        if isinstance(entry, int):
            out.node_end[entry] = len(out.node_byte)
            out.node_height[entry] = max(out.node_depth[entry:]) - out.node_depth[entry]
            continue
        node, byte, depth = entry
        number = len(out.node_byte)
        out.node_byte.append(byte)
        out.node_depth.append(depth)
        out.node_end.append(-1)
        out.node_height.append(-1)
        for token_id in sorted(node.token_ids):
            out.token_order.append(token_id)
            out.token_node[token_id] = number
        out.node_first_token.append(len(out.token_order))
        stack.append(number)
        stack.extend((node.children[child], child, depth + 1) for child in sorted(node.children, reverse=True))
    return out
