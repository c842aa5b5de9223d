"""Bitmasks and the scores that they apply to, as arrays of NumPy or tensors of torch.

Owns the expansion of words into one flag a token. Must never import torch: who hands over a tensor has it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from shmcache.array_types import Int32Array
from shmcache.matcher.bitmask import BITS_PER_WORD


def is_tensor(value: Any) -> bool:
    """Whether ``value`` is a tensor of torch."""
    return type(value).__module__.partition(".")[0] == "torch" and hasattr(value, "device")


def expand(bitmask: Int32Array, width: int) -> npt.NDArray[np.bool_]:
    """One flag for each of the first ``width`` tokens of each row; bool (..., width)."""
    octets = np.ascontiguousarray(bitmask).view(np.uint8)
    flags: npt.NDArray[np.bool_] = np.unpackbits(octets, axis=-1, count=width, bitorder="little").view(np.bool_)
    return flags


def expand_tensor(bitmask: Any, width: int) -> Any:
    """The same for a tensor, on the device where it lies."""
    import torch

    if bitmask.device.type == "cpu":
        return torch.from_numpy(expand(bitmask.detach().numpy(), width))
    shifts = torch.arange(BITS_PER_WORD, dtype=torch.int32, device=bitmask.device)
    flags = (bitmask.unsqueeze(-1) >> shifts) & 1
    return flags.flatten(-2)[..., :width].bool()


def forbid(scores: Any, bitmask: Int32Array) -> Any:
    """``scores``, a tensor (rows, width), with -inf for every token that ``bitmask`` forbids or has no bit for."""
    import torch

    width = min(scores.shape[-1], bitmask.shape[-1] * BITS_PER_WORD)
    allowed = expand_tensor(torch.from_numpy(bitmask).to(scores.device), width)
    if width < scores.shape[-1]:
        allowed = torch.nn.functional.pad(allowed, (0, scores.shape[-1] - width))
    return scores.masked_fill(~allowed, float("-inf"))
