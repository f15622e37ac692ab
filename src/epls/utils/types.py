"""Types of arrays and functions, for annotations."""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.floating]
Float64: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.intp]
#: Called with the name of a stage, and the numbers of steps done and in total.
Progress: TypeAlias = Callable[[str, int, int], None]
