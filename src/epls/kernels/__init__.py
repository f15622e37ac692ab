"""Compiled inner loops: arrays in, arrays out; no validation, no classes.

numba compiles a kernel when it is first called, and the user waits. Loops compile quickly. Operations on whole arrays
(``a[:] = b``, ``a -= 1``, ``np.where``) take seconds each, because numba compiles broadcasting and its error messages.
A new array, ``min``, ``max`` and a call of another function take some hundredths of a second each.
``benchmarks/first_use.py`` measures the time.
"""

from functools import partial

from numba import njit

#: Compiles a function for calls from Python and from other kernels; without the form for C, a seventh faster.
kernel = partial(njit, cache=True, nogil=True, error_model="numpy", no_cfunc_wrapper=True)
