"""The text tokens of a vocabulary as a trie in flat arrays, ready to be walked in place by any process.

Owns the arrays, how they are built, and their form at rest. Must never know a grammar or a mask.

Nodes are numbered depth-first with children in byte order, so a subtree is one range of nodes, and the tokens that
end inside it are one range of ``token_order``. Node 0 is the root, the empty prefix. Tokens that are special, empty, a
gap, or at or past the width are not in the trie. All arrays are C-contiguous and read-only, whether built here or
mapped, so that compiled kernels see one type.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from shmcache.array_types import Int32Array
from shmcache.errors import SegmentError
from shmcache.limits import TOKEN_BYTES_MAX, TOKEN_COUNT_MAX
from shmcache.vocabulary.sections import Readable, pack_sections, unpack_sections

if TYPE_CHECKING:
    from shmcache.vocabulary.vocabulary import Vocabulary

_MAGIC = b"SHMCtri\0"
_VERSION = 2
_FINGERPRINT_WORDS = 4
_DTYPES = (np.uint8, np.int32, np.int32, np.int32, np.int32, np.int32, np.int32, np.int32)


@dataclass(frozen=True, slots=True, eq=False)
class Trie:
    """``N`` nodes over ``T`` text tokens of a vocabulary of ``size`` ids and ``width`` mask bits."""

    fingerprint: bytes
    """Of the vocabulary it was built from, 32 bytes."""
    width: int
    longest_token_bytes: int
    node_byte: npt.NDArray[np.uint8]
    """uint8 (N): the last byte of the node's prefix; 0 for the root."""
    node_depth: Int32Array
    """int32 (N): length of the node's prefix in bytes; 0 for the root only."""
    node_end: Int32Array
    """int32 (N): one past the last node of the subtree."""
    node_height: Int32Array
    """int32 (N): bytes of the longest way down from the node; 0 where nothing is below."""
    node_first_token: Int32Array
    """int32 (N + 1): tokens ending at ``n`` itself are ``token_order[node_first_token[n]:node_first_token[n + 1]]``."""
    token_order: Int32Array
    """int32 (T): text token ids sorted by (bytes, id)."""
    token_node: Int32Array
    """int32 (size): the node at which a token ends, -1 for an id that is not in the trie."""
    text_bitmask: Int32Array
    """int32 (ceil(width / 32)): bit ``t % 32`` of word ``t // 32`` is set for every token ``t`` in the trie."""
    first_node: Int32Array
    """int32 (256): the child of the root for each byte, -1 where no token begins with it. Not in the form at rest."""

    @property
    def node_count(self) -> int:
        """Number of nodes, the root included."""
        return len(self.node_byte)

    @property
    def token_count(self) -> int:
        """Number of tokens in the trie."""
        return len(self.token_order)

    @property
    def size(self) -> int:
        """Number of ids of the vocabulary, in the trie or not."""
        return len(self.token_node)

    def first_byte_nodes(self) -> npt.NDArray[np.int64]:
        """int64 (256): for each byte how many nodes lie in the subtree of the tokens that begin with it."""
        first = self.first_node
        counts: npt.NDArray[np.int64] = np.where(first >= 0, self.node_end[first] - first, 0).astype(np.int64)
        return counts

    @classmethod
    def build(cls, vocabulary: Vocabulary) -> Trie:
        """The trie of ``vocabulary``'s text tokens; about half a second for 131,072 tokens.

        Sorted tokens differ from their predecessor by a tail; the tails, one after the other, are the nodes.
        """
        offsets = vocabulary.flat.offsets
        ids = vocabulary.text_token_ids()
        data = vocabulary.flat.blob.tobytes()
        tokens = [data[start:end] for start, end in zip(offsets[ids].tolist(), offsets[ids + 1].tolist(), strict=True)]
        # Ids ascend and the sort is stable, so equal tokens stay in id order.
        rank = np.array(sorted(range(len(tokens)), key=tokens.__getitem__), dtype=np.int64)
        order = ids[rank]
        starts = offsets[order]
        lengths = offsets[order + 1] - starts

        shared = _shared_prefix_lengths(vocabulary.flat.blob, starts, lengths)
        tails = lengths - shared
        # Token i ends at the last node emitted so far; one equal to its predecessor emits none and ends where it did.
        ends = np.cumsum(tails)
        node_count = 1 + int(tails.sum())
        within_tail = np.arange(node_count - 1) - np.repeat(ends - tails, tails)
        node_byte = np.zeros(node_count, dtype=np.uint8)
        node_byte[1:] = vocabulary.flat.blob[np.repeat(starts + shared, tails) + within_tail]
        node_depth = np.zeros(node_count, dtype=np.int32)
        node_depth[1:] = np.repeat(shared + 1, tails) + within_tail

        node_first_token = np.zeros(node_count + 1, dtype=np.int32)
        np.cumsum(np.bincount(ends, minlength=node_count), out=node_first_token[1:])
        token_node = np.full(vocabulary.size, -1, dtype=np.int32)
        token_node[order] = ends
        bits = np.zeros(-(-vocabulary.width // 32) * 32, dtype=np.uint8)
        bits[ids] = 1
        return cls._frozen(
            vocabulary.fingerprint,
            vocabulary.width,
            int(lengths.max(initial=0)),
            (
                node_byte,
                node_depth,
                *_subtrees(node_depth),
                node_first_token,
                order.astype(np.int32),
                token_node,
                np.packbits(bits, bitorder="little").view("<i4").astype(np.int32, copy=False),
            ),
        )

    def to_bytes(self) -> bytes:
        """The whole trie as one checksummed byte string; :meth:`from_buffer` opens it in place."""
        fingerprint = np.frombuffer(self.fingerprint, dtype="<u8").tolist()
        return pack_sections(_MAGIC, _VERSION, (*fingerprint, self.width, self.longest_token_bytes), self._arrays())

    @classmethod
    def from_buffer(cls, buffer: Readable) -> Trie:
        """The trie that :meth:`to_bytes` wrote, as views of ``buffer``, which must start at a multiple of 8 bytes.

        Every index in it is checked to be in bounds, so that a kernel can walk it. Raises :class:`SegmentError`.
        """
        words, arrays = unpack_sections(buffer, _MAGIC, _VERSION, _FINGERPRINT_WORDS + 2, _DTYPES)
        if not all(array.flags.aligned for array in arrays):
            raise SegmentError("the trie does not start at a multiple of 8 bytes")
        *fingerprint, width, longest_token_bytes = words
        trie = cls._frozen(np.array(fingerprint, dtype="<u8").tobytes(), width, longest_token_bytes, arrays)
        trie._check_bounds()
        return trie

    @classmethod
    def _frozen(
        cls, fingerprint: bytes, width: int, longest_token_bytes: int, arrays: tuple[npt.NDArray[Any], ...]
    ) -> Trie:
        node_byte, _, node_end, *_ = arrays
        first_node = np.full(256, -1, dtype=np.int32)
        # Nothing is known yet of arrays that come from elsewhere, not even that they are of one length.
        node, node_count = 1, min(len(node_byte), len(node_end))
        while node < node_count:
            first_node[node_byte[node]] = node
            node = max(int(node_end[node]), node + 1)
        for array in (*arrays, first_node):
            array.setflags(write=False)
        return cls(fingerprint, width, longest_token_bytes, *(*arrays, first_node))

    def _arrays(self) -> tuple[npt.NDArray[Any], ...]:
        return (
            self.node_byte,
            self.node_depth,
            self.node_end,
            self.node_height,
            self.node_first_token,
            self.token_order,
            self.token_node,
            self.text_bitmask,
        )

    def _check_bounds(self) -> None:
        """Raises :class:`SegmentError` unless every index points into the array it is for, and every walk goes on."""
        nodes, tokens = self.node_count, self.token_count
        if not (1 <= self.width <= TOKEN_COUNT_MAX and self.longest_token_bytes <= TOKEN_BYTES_MAX and nodes >= 1):
            raise SegmentError("the trie exceeds its limits")
        per_node = {len(self.node_depth), len(self.node_end), len(self.node_height), len(self.node_first_token) - 1}
        if per_node != {nodes} or len(self.text_bitmask) != -(-self.width // 32):
            raise SegmentError("the arrays of the trie do not fit each other")
        first, end = self.node_first_token, self.node_end
        numbers = np.arange(nodes, dtype=np.int32)
        in_bounds = (
            first[0] == 0
            and first[-1] == tokens
            and not (first[1:] < first[:-1]).any()
            and end[0] == nodes
            and bool((end > numbers).all() and (end <= nodes).all())
            and self.node_depth[0] == 0
            # Depth grows by one at most, so a path kept in an array by depth is always filled up to the node's parent.
            and bool((self.node_depth[1:] >= 1).all() and (np.diff(self.node_depth) <= 1).all())
            and self.node_depth.max() == self.longest_token_bytes
            and bool(((self.node_height >= 0) & (self.node_height <= self.longest_token_bytes)).all())
            and bool(((self.token_order >= 0) & (self.token_order < min(self.size, self.width))).all())
            and bool(((self.token_node >= -1) & (self.token_node < nodes)).all())
        )
        if not in_bounds:
            raise SegmentError("the trie holds an index out of bounds")


def _shared_prefix_lengths(
    blob: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """For each token of a sorted list, how many leading bytes it shares with its predecessor (0 for the first)."""
    shared = np.zeros(len(starts), dtype=np.int64)
    shortest = np.minimum(lengths[1:], lengths[:-1])
    undecided = np.arange(1, len(starts))
    depth = 0
    while len(undecided):
        undecided = undecided[shortest[undecided - 1] > depth]
        equal = blob[starts[undecided] + depth] == blob[starts[undecided - 1] + depth]
        undecided = undecided[equal]
        depth += 1
        shared[undecided] = depth
    return shared


def _subtrees(node_depth: Int32Array) -> tuple[Int32Array, Int32Array]:
    """End and height of each subtree, for nodes in depth-first order. Works from the deepest level up."""
    ends = np.arange(1, len(node_depth) + 1, dtype=np.int32)
    heights = np.zeros(len(node_depth), dtype=np.int32)
    by_depth = np.argsort(node_depth, kind="stable")
    level_bounds = np.cumsum(np.bincount(node_depth))[:-1]
    levels = np.split(by_depth, level_bounds)
    for nodes, children in zip(reversed(levels[:-1]), reversed(levels[1:]), strict=True):
        parents = nodes[np.searchsorted(nodes, children) - 1]
        # Children ascend; of several assignments to one parent the last, its last child's, stays.
        ends[parents] = ends[children]
        np.maximum.at(heights, parents, heights[children] + 1)
    return ends, heights
