"""Operations on scalars that numba cannot express in a form that LLVM turns into SIMD instructions."""

from llvmlite import ir
from numba import types
from numba.extending import intrinsic


@intrinsic
def larger(typing_context, a, b):
    """Return the larger of two numbers of the same type, neither of them NaN."""

    def codegen(context, builder, signature, args):
        # Numba's max sets no flags on the selection, and LLVM would not turn a running maximum into a SIMD reduction:
        # the scan of a row would take six times as long.
        flags = ("nnan", "nsz")
        a_is_greater = builder.fcmp_ordered(">", args[0], args[1], flags=flags)
        return builder.select(a_is_greater, args[0], args[1], flags=flags)

    return a(a, a), codegen


@intrinsic
def float32_from_bits(typing_context, bits):
    """Return the float32 with the bit pattern of an int32."""

    def codegen(context, builder, signature, args):
        return builder.bitcast(args[0], ir.FloatType())

    return types.float32(types.int32), codegen


@intrinsic
def bits_of_float32(typing_context, value):
    """Return the int32 with the bit pattern of a float32."""

    def codegen(context, builder, signature, args):
        return builder.bitcast(args[0], ir.IntType(32))

    return types.int32(types.float32), codegen


@intrinsic
def copy_less(typing_context, source, start, level, target, place):
    """Write eight values of a row of float32, minus a number, to a row that does not overlap it.

    LLVM does not know that the rows do not overlap, and would write one value at a time.
    """

    def codegen(context, builder, signature, args):
        lanes = ir.VectorType(ir.FloatType(), 8)
        pointers = []
        for array, number, kind in ((args[0], args[1], source), (args[3], args[4], target)):
            data = context.make_array(kind)(context, builder, array).data
            pointers.append(builder.bitcast(builder.gep(data, [number]), lanes.as_pointer()))
        levels = ir.Constant(lanes, None)
        for lane in range(8):
            levels = builder.insert_element(levels, args[2], ir.Constant(ir.IntType(32), lane))
        values = builder.load(pointers[0], align=4)
        builder.store(builder.fsub(values, levels), pointers[1], align=4)
        return context.get_dummy_value()

    return types.void(source, types.intp, types.float32, target, types.intp), codegen


@intrinsic
def tagged(typing_context, value, tag, keep):
    """Return a number with the bits of ``value`` where ``keep`` has ones, and those of ``tag`` where it has zeros.

    If its last bits hold the index of a value, the largest of many values includes its own position: one SIMD reduction
    replaces a search afterwards.
    """

    def codegen(context, builder, signature, args):
        bits_type = ir.IntType(value.bitwidth)
        tag_bits, keep_bits = (_resized(builder, number, bits_type) for number in args[1:])
        kept = builder.and_(builder.bitcast(args[0], bits_type), keep_bits)
        return builder.bitcast(builder.or_(kept, tag_bits), args[0].type)

    return value(value, tag, keep), codegen


@intrinsic
def tag_of(typing_context, value, keep):
    """Return the tag of a number made by :func:`tagged`."""

    def codegen(context, builder, signature, args):
        bits_type = ir.IntType(value.bitwidth)
        bits = builder.bitcast(args[0], bits_type)
        tag = builder.and_(bits, builder.not_(_resized(builder, args[1], bits_type)))
        return builder.zext(tag, ir.IntType(64)) if bits_type.width < 64 else tag

    return types.int64(value, keep), codegen


def _resized(builder, number, to):
    return builder.trunc(number, to) if number.type.width > to.width else number
