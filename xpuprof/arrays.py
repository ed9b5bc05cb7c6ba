# SPDX-License-Identifier: Apache-2.0
"""Types of arrays, and what many of them need."""

from typing import Any

import numpy as np
import numpy.typing as npt

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
U32 = npt.NDArray[np.uint32]
U64 = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]


def starts_of(sizes: npt.NDArray[Any]) -> U64:
    """uint64[n + 1]: 0 and the running sum of `sizes`."""
    result = np.zeros(len(sizes) + 1, np.uint64)
    np.cumsum(sizes, out=result[1:], dtype=np.uint64)
    return result
