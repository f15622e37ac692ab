"""Types of arrays, for annotations."""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.floating]
Float64: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.intp]
