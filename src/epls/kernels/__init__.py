"""Compiled inner loops: arrays in, arrays out; no validation, no classes.

The user waits for numba when a kernel is first called. Loops compile quickly. Operations on whole arrays do not
(``a[:] = b``, ``a -= 1``, ``np.where``): for each, numba compiles broadcasting and its error messages, for seconds.
``benchmarks/first_use.py`` measures it.
"""
