"""Operations on scalars that numba cannot express in a form that LLVM turns into SIMD instructions."""

from llvmlite import ir
from numba import types
from numba.extending import intrinsic


@intrinsic
def larger(typing_context, a, b):
    """The larger of two numbers of one type, neither of them NaN.

    Numba's ``max`` and its conditional expressions put no fast-math flags on the selection, and without them LLVM
    makes no SIMD reduction of a running maximum: the scan of a row would take six times as long.
    """

    def codegen(context, builder, signature, args):
        flags = ("nnan", "nsz")
        a_is_greater = builder.fcmp_ordered(">", args[0], args[1], flags=flags)
        return builder.select(a_is_greater, args[0], args[1], flags=flags)

    return a(a, a), codegen


@intrinsic
def float32_from_bits(typing_context, bits):
    """The float32 whose bit pattern is that of the int32 given."""

    def codegen(context, builder, signature, args):
        return builder.bitcast(args[0], ir.FloatType())

    return types.float32(types.int32), codegen
