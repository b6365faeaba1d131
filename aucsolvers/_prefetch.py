"""Asking for rows ahead of their turn: visits in random order otherwise wait for memory at each row."""

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload

AHEAD = 16  # rows between asking and using: at 10 to 60 ns each, one trip to memory
LINE = 64  # bytes of a cache line; longer ones are asked for twice, which costs little
LONGEST = 4096  # bytes of a row that are asked for: from there on the hardware reads ahead by itself


def prefetch_row(rows, i):
    """Ask for x_i, dense or CSR, without waiting for it; changes nothing."""
    raise NotImplementedError("compiled code only")


@overload(prefetch_row, jit_options={"nogil": True, "forceinline": True})
def _compile_prefetch_row(rows, i):
    def dense(rows, i):
        length = rows.shape[1] * rows.itemsize
        _prefetch_bytes(rows.ctypes.data + np.int64(i) * length, length)

    def csr(rows, i):
        data, indices, indptr = rows
        start, stop = np.int64(indptr[i]), np.int64(indptr[i + np.uint32(1)])
        _prefetch_bytes(data.ctypes.data + start * data.itemsize, (stop - start) * data.itemsize)
        _prefetch_bytes(indices.ctypes.data + start * indices.itemsize, (stop - start) * indices.itemsize)

    return dense if isinstance(rows, types.Array) else csr


def _prefetch_bytes(address, length):
    raise NotImplementedError("compiled code only")


@overload(_prefetch_bytes, jit_options={"nogil": True, "forceinline": True})
def _compile_prefetch_bytes(address, length):
    def prefetch_bytes(address, length):
        for offset in range(0, min(length, LONGEST), LINE):
            prefetch_line(address + offset)

    return prefetch_bytes


@intrinsic
def prefetch_line(typing_context, address):
    """Ask for the cache line at an address (LLVM's prefetch; never faults, changes nothing)."""

    def codegen(context, builder, signature, arguments):
        pointer = builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())
        i32 = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [pointer.type, i32, i32, i32])
        function = builder.module.declare_intrinsic("llvm.prefetch", [pointer.type], kind)
        for_reading, keep, data = i32(0), i32(3), i32(1)
        builder.call(function, [pointer, for_reading, keep, data])
        return context.get_dummy_value()

    return types.void(types.intp), codegen
