"""Writes libraries without contents in place of CUDA's: stubs.py FOLDER

The package index has torch for NVIDIA's GPUs only. On a processor it calls none of their libraries, but it is linked
with them, and they take several gigabytes. FOLDER is torch/lib.
"""

import pathlib
import re
import subprocess
import sys
import tempfile

# The beginnings of the names that each library has.
OWNERS = {"cublasLt": "libcublasLt.", "cublas": "libcublas.", "cusparseLt": "libcusparseLt.",
          "cusparse": "libcusparse.", "cusolver": "libcusolver.", "cufft": "libcufft.", "curand": "libcurand.",
          "cudnn": "libcudnn.", "nccl": "libnccl.", "pnccl": "libnccl.", "nvrtc": "libnvrtc.", "cuFile": "libcufile.",
          "nvshmem": "libnvshmem_host."}
# These two are called when torch is loaded, and are small enough to install.
REAL = re.compile(r"libcudart|libcupti")


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def wanted(folder):
    """Returns the names and versions of the functions that torch wants of each library."""
    libraries, names = {}, set()
    for file in folder.glob("*.so"):
        for library in re.findall(r"NEEDED.*\[(lib(?:cu|nv|nccl).*)\]", output("readelf", "-d", file)):
            if not REAL.match(library):
                libraries.setdefault(library, set())
        names.update(line.split()[-1] for line in output("nm", "-D", "--undefined-only", file).splitlines())
    for full in names:
        name, _, version = full.partition("@")
        owner = next((OWNERS[start] for start in OWNERS if name.startswith(start)), None)
        for library, functions in libraries.items():
            if owner and library.startswith(owner):
                functions.add((name, version.lstrip("@")))
    return libraries


def write(folder, library, functions):
    with tempfile.TemporaryDirectory() as scratch:
        source = pathlib.Path(scratch, "stub.c")
        source.write_text("".join(f"int {name}(void) {{ return -1; }}\n" for name in sorted({n for n, _ in functions})))
        command = ["cc", "-shared", "-fPIC", "-o", folder / library, f"-Wl,-soname,{library}", source]
        versions = sorted({v for _, v in functions if v})
        if versions:
            script = pathlib.Path(scratch, "stub.map")
            script.write_text("".join(
                f"{v} {{ global: {' '.join(n + ';' for n, w in sorted(functions) if w == v)} }};\n" for v in versions))
            command.append(f"-Wl,--version-script={script}")
        subprocess.run(command, check=True)


def main():
    folder = pathlib.Path(sys.argv[1])
    for library, functions in wanted(folder).items():
        write(folder, library, functions)


main()
