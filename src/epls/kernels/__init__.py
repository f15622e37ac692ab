"""Compiled inner loops: arrays in, arrays out; no validation, no classes.

numba compiles a kernel when it is first called, and the user waits. Loops compile quickly. Operations on whole arrays
(``a[:] = b``, ``a -= 1``, ``np.where``) take seconds each, because numba compiles broadcasting and its error messages.
``benchmarks/first_use.py`` measures the time.
"""
