# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The part of tlx.h that the benchmarks need, through ctypes. Not a binding: just enough to compile, launch and read metadata."""
import ctypes
import json
import os
import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent


class _Param(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("value", ctypes.c_char_p)]


class _CompileOptions(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("file_name", ctypes.c_char_p), ("kernel", ctypes.c_char_p),
                ("params", ctypes.POINTER(_Param)), ("num_params", ctypes.c_size_t), ("facts", ctypes.POINTER(ctypes.c_char_p)),
                ("num_facts", ctypes.c_size_t), ("target", ctypes.c_char_p), ("device", ctypes.c_void_p), ("image", ctypes.c_uint32),
                ("keep", ctypes.c_uint32), ("flags", ctypes.c_uint32), ("reserved", ctypes.c_uint32), ("assembler", ctypes.c_char_p),
                ("dump_after", ctypes.c_char_p), ("import_", ctypes.c_void_p), ("import_user", ctypes.c_void_p)]


class _LaunchOptions(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("grid", ctypes.c_uint32 * 3), ("schedule", ctypes.c_uint32), ("stream", ctypes.c_void_p),
                ("seed", ctypes.c_uint64), ("max_steps", ctypes.c_uint64), ("report", ctypes.c_void_p)]


MAX_RANK = 5


class _Tensor(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("data", ctypes.c_void_p), ("dtype", ctypes.c_uint32), ("rank", ctypes.c_uint32),
                ("shape", ctypes.c_int64 * MAX_RANK), ("strides", ctypes.c_int64 * MAX_RANK)]


class _Value(ctypes.Union):
    _fields_ = [("pointer", ctypes.c_void_p), ("i", ctypes.c_int64), ("u", ctypes.c_uint64), ("f", ctypes.c_double),
                ("tensor", ctypes.POINTER(_Tensor))]


class _Arg(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_uint32), ("reserved", ctypes.c_uint32), ("value", _Value)]


class Library:
    def __init__(self, path=None):
        self.c = ctypes.CDLL(str(path or os.environ.get("TLX_LIBRARY") or ROOT / "build" / "libtlxjit.so"))
        self.c.tlx_error_message.restype = ctypes.c_char_p
        self.c.tlx_error_diagnostics.restype = ctypes.c_char_p
        self.c.tlx_kernel_metadata_json.restype = ctypes.c_char_p
        self.context = ctypes.c_void_p()
        self._check(lambda e: self.c.tlx_context_create(None, ctypes.byref(self.context), e))

    def _fail(self, status, error):
        text = (self.c.tlx_error_message(error) or b"").decode() + "\n" + (self.c.tlx_error_diagnostics(error) or b"").decode()
        raise RuntimeError(f"tlx status {status}: {text}")

    def _check(self, call):
        error = ctypes.c_void_p()
        status = call(ctypes.byref(error))
        if status:
            self._fail(status, error)

    def device(self, name):
        handle = ctypes.c_void_p()
        self._check(lambda e: self.c.tlx_device_open(self.context, name.encode(), ctypes.byref(handle), e))
        return handle

    def register(self, device, address, size):
        """Memory of the host for a device that can use it (the simulator)."""
        self._check(lambda e: self.c.tlx_device_register(device, ctypes.c_void_p(address), ctypes.c_size_t(size), e))

    def unregister(self, device, address):
        self._check(lambda e: self.c.tlx_device_unregister(device, ctypes.c_void_p(address), e))

    def compile(self, source, file_name, kernel, target, device=None, params=(), facts=(), keep=0, assembler=None):
        plist = (_Param * len(params))(*[_Param(n.encode(), str(v).encode()) for n, v in params])
        flist = (ctypes.c_char_p * len(facts))(*[f.encode() for f in facts])
        o = _CompileOptions(struct_size=ctypes.sizeof(_CompileOptions), file_name=file_name.encode(), kernel=kernel.encode(),
                            params=plist, num_params=len(params), facts=flist, num_facts=len(facts), target=target.encode(),
                            device=device, keep=keep, assembler=assembler.encode() if assembler else None)
        handle = ctypes.c_void_p()
        data = source.encode()
        self._check(lambda e: self.c.tlx_compile(self.context, data, ctypes.c_size_t(len(data)), ctypes.byref(o), ctypes.byref(handle), e))
        return Kernel(self, handle, device)


class Kernel:
    def __init__(self, library, handle, device):
        self.library, self.handle, self.device = library, handle, device
        self.metadata = json.loads(library.c.tlx_kernel_metadata_json(handle).decode())

    def artifact(self, which):
        data, size = ctypes.c_void_p(), ctypes.c_size_t()
        self.library._check(lambda e: self.library.c.tlx_kernel_artifact(self.handle, which, ctypes.byref(data), ctypes.byref(size), e))
        return ctypes.string_at(data, size.value)

    def _tensor(self, a, type_):
        """What a tensor_desc<f16, [128, 64]> takes: `a` with its shape and strides."""
        element = type_[len("tensor_desc<"):].split(",")[0]
        t = _Tensor(struct_size=ctypes.sizeof(_Tensor), data=a.data_ptr(), dtype=self.library.c.tlx_dtype_from_name(element.encode()),
                    rank=len(a.shape))
        t.shape[:len(a.shape)], t.strides[:len(a.shape)] = list(a.shape), list(a.stride())
        return t

    def launcher(self, grid, args):
        """A callable that launches with these arguments on the stream it is given (0: the default stream). Arguments with data_ptr() are
        PyTorch tensors or what looks like them; a tensor_desc also takes their shape and stride()."""
        packed = (_Arg * len(args))()
        tensors = []  # kept alive by the closure below
        for slot, a, declared in zip(packed, args, self.metadata["args"]):
            if declared["type"].startswith("tensor_desc"):
                tensors.append(self._tensor(a, declared["type"]))
                slot.kind, slot.value.tensor = 5, ctypes.pointer(tensors[-1])
            elif hasattr(a, "data_ptr"):
                slot.kind, slot.value.pointer = 1, a.data_ptr()
            elif isinstance(a, float):
                slot.kind, slot.value.f = 4, a
            else:
                slot.kind, slot.value.i = 2, a
        options = _LaunchOptions(struct_size=ctypes.sizeof(_LaunchOptions))
        options.grid[:] = list(grid) + [1] * (3 - len(grid))
        # The way from Python to the library is kept short: it is not what a C program pays.
        call, error = self.library.c.tlx_kernel_launch, ctypes.c_void_p()
        fixed = (self.handle, self.device, ctypes.byref(options), packed, ctypes.c_size_t(len(args)), ctypes.byref(error))

        def launch(stream=0, _alive=(tensors, options)):
            options.stream = stream
            if status := call(*fixed):
                self.library._fail(status, error)
        return launch
