"""Compiles CUDA sources to PTX beside them with NVRTC, which needs no GPU; builtin.cu if none is
named.

    pip install nvidia-cuda-nvrtc-cu12==12.2.140
    python3 compile.py PATH/libnvrtc.so.12 [SOURCE.cu...]

Of an old toolkit and for an old architecture, so that any newer driver and GPU can go on from it.
"""

import ctypes
import pathlib
import sys

nvrtc = ctypes.CDLL(sys.argv[1])


def check(status):
    if status != 0:
        raise SystemExit(f"NVRTC says {status}")


def compile(path):
    program = ctypes.c_void_p()
    name = path.name.encode()
    source = path.read_bytes()
    check(nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, name, 0, None, None))
    options = (ctypes.c_char_p * 1)(b"--gpu-architecture=compute_75")
    status = nvrtc.nvrtcCompileProgram(program, 1, options)
    size = ctypes.c_size_t()
    check(nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size)))
    log = ctypes.create_string_buffer(size.value)
    check(nvrtc.nvrtcGetProgramLog(program, log))
    print(log.value.decode(), file=sys.stderr, end="")
    check(status)
    check(nvrtc.nvrtcGetPTXSize(program, ctypes.byref(size)))
    ptx = ctypes.create_string_buffer(size.value)
    check(nvrtc.nvrtcGetPTX(program, ptx))
    path.with_suffix(".ptx").write_bytes(ptx.value)


sources = sys.argv[2:] or [pathlib.Path(__file__).parent / "builtin.cu"]
for source in sources:
    compile(pathlib.Path(source))
