"""Names for the types of NumPy arrays.

Owns these names for all layers above. Must never know what an array holds.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Int32Array = npt.NDArray[np.int32]
Int64Array = npt.NDArray[np.int64]
UInt8Array = npt.NDArray[np.uint8]
