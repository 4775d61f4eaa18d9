"""Compiles the CUDA sources of this folder to PTX with NVRTC, which needs no GPU, and checks it.

    pip install nvidia-cuda-nvrtc-cu12==12.2.140
    python3 compile.py PATH/libnvrtc.so.12

Of an old toolkit and for an old architecture, so that any newer driver and GPU can go on from it.
With two more paths it also links what needs the device runtime, as the driver does when the study
runs, for several GPUs; a symbol that cannot be found is an error:

    pip install nvidia-nvjitlink==13.0.88 nvidia-cuda-runtime==13.0.96
    python3 compile.py PATH/libnvrtc.so.12 PATH/libnvJitLink.so.13 PATH/libcudadevrt.a
"""

import ctypes
import pathlib
import sys

HERE = pathlib.Path(__file__).parent
ARCHITECTURE = "75"
# Whether the code is relocatable, to be linked with the device runtime.
SOURCES = {
    "network": False,
    "persistent": False,
    "parallelism": True,
    "launcher": True,
    "loop": True,
}
LINKED_FOR = ["75", "80", "90"]


def check(status, who):
    if status != 0:
        raise SystemExit(f"{who} says {status}")


def bytes_of(get_size, get, who):
    size = ctypes.c_size_t()
    check(get_size(ctypes.byref(size)), who)
    text = ctypes.create_string_buffer(size.value)
    check(get(text), who)
    return text.raw


def compile_to_ptx(nvrtc, name, relocatable):
    source = (HERE / f"{name}.cu").read_bytes()
    included = ["network.cuh", "network.cu"]
    texts = (ctypes.c_char_p * 2)(*((HERE / file).read_bytes() for file in included))
    names = (ctypes.c_char_p * 2)(*(file.encode() for file in included))
    program = ctypes.c_void_p()
    created = nvrtc.nvrtcCreateProgram(
        ctypes.byref(program), source, f"{name}.cu".encode(), 2, texts, names
    )
    check(created, "NVRTC")
    options = [f"--gpu-architecture=compute_{ARCHITECTURE}".encode()]
    if relocatable:
        options.append(b"--relocatable-device-code=true")
    compiled = nvrtc.nvrtcCompileProgram(
        program, len(options), (ctypes.c_char_p * len(options))(*options)
    )
    log = bytes_of(
        lambda size: nvrtc.nvrtcGetProgramLogSize(program, size),
        lambda text: nvrtc.nvrtcGetProgramLog(program, text),
        "NVRTC",
    )
    print(log.rstrip(b"\0").decode(), file=sys.stderr, end="")
    check(compiled, f"{name}.cu: NVRTC")
    ptx = bytes_of(
        lambda size: nvrtc.nvrtcGetPTXSize(program, size),
        lambda text: nvrtc.nvrtcGetPTX(program, text),
        "NVRTC",
    )
    return ptx.rstrip(b"\0")


def symbol(library, name):
    """A function of nvJitLink, which appends its version to all names."""
    for major in (13, 12):
        for minor in range(20, -1, -1):
            found = getattr(library, f"__{name}_{major}_{minor}", None)
            if found is not None:
                return found
    return getattr(library, name)


def link(library, runtime, name, ptx, architecture):
    PTX, LIBRARY = 2, 6
    handle = ctypes.c_void_p()
    options = (ctypes.c_char_p * 1)(f"-arch=sm_{architecture}".encode())
    create, add_data, add_file, complete, error_size, error_log = (
        symbol(library, f"nvJitLink{verb}")
        for verb in (
            "Create",
            "AddData",
            "AddFile",
            "Complete",
            "GetErrorLogSize",
            "GetErrorLog",
        )
    )
    check(create(ctypes.byref(handle), 1, options), "nvJitLink")
    status = add_data(handle, PTX, ptx + b"\0", ctypes.c_size_t(len(ptx) + 1), name.encode())
    status = status or add_file(handle, LIBRARY, runtime.encode())
    status = status or complete(handle)
    log = bytes_of(
        lambda size: error_size(handle, size), lambda text: error_log(handle, text), "nvJitLink"
    )
    print(log.rstrip(b"\0").decode(), file=sys.stderr, end="")
    check(status, f"{name}.ptx for sm_{architecture}: nvJitLink")
    print(f"{name}.ptx: links for sm_{architecture}")


def main():
    nvrtc = ctypes.CDLL(sys.argv[1])
    for name, relocatable in SOURCES.items():
        ptx = compile_to_ptx(nvrtc, name, relocatable)
        (HERE / f"{name}.ptx").write_bytes(ptx)
        print(f"{name}.ptx: {len(ptx)} bytes")
        if len(sys.argv) > 3 and relocatable:
            for architecture in LINKED_FOR:
                link(ctypes.CDLL(sys.argv[2]), sys.argv[3], name, ptx, architecture)


main()
