#!/usr/bin/env python3
"""Renews the hashes in backend/mlx/requirements.txt: scripts/mlx_lock.py

To change a version, change it in the file and run this. It asks the package index that pip is configured for, and
downloads no packages but those that the index does not describe. It needs pip 23.0 or newer and takes some minutes.

The file gets the hash of every wheel that pip would choose on the systems below. Nothing else can be installed then.
"""

import concurrent.futures
import json
import pathlib
import re
import subprocess
import sys
import tempfile

FILE = pathlib.Path(__file__).parent.parent / "backend" / "mlx" / "requirements.txt"
HEADER = "# scripts/mlx_lock.py writes the hashes. Versions are chosen by hand.\n"

PYTHONS = ["3.11", "3.12", "3.13", "3.14"]

# MLX needs glibc 2.35. A newer one may be given other wheels, and so may a newer macOS.
SYSTEMS = [("linux", [f"manylinux_2_{minor}_{arch}" for minor in range(glibc, 4, -1)] + [f"manylinux2014_{arch}"])
           for arch in ("x86_64", "aarch64") for glibc in (35, 43)]
SYSTEMS += [("darwin", [f"macosx_{version}_0_arm64"]) for version in (14, 15, 26)]

PIN = re.compile(r'([\w.-]+==[\w.]+)(?:; *sys_platform == "(\w+)")?')


def pins(text):
    """Returns the pins of a file as (name and version, system or None)."""
    found = []
    for line in text.splitlines():
        line = line.removesuffix("\\").strip()
        if not line or line.startswith(("#", "--hash=")):
            continue
        m = PIN.fullmatch(line)
        if not m:
            sys.exit(f"mlx_lock: cannot read the line {line!r}")
        found.append(m.groups())
    return found


def name_of(requirement):
    """Returns a package's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", requirement.partition("==")[0]).lower()


def wheels(python, platforms, requirements):
    """Returns the hash of the wheel that pip chooses for each package."""
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder, "report.json")
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--dry-run",
                   "--ignore-installed", "--no-deps", "--only-binary", ":all:", "--implementation", "cp",
                   "--python-version", python, "--target", folder, "--report", str(report)]
        for p in platforms:
            command += ["--platform", p]
        subprocess.run(command + requirements, check=True)
        chosen = json.loads(report.read_text())["install"]
    return {name_of(c["metadata"]["name"]): c["download_info"]["archive_info"]["hashes"]["sha256"] for c in chosen}


def main():
    wanted = pins(FILE.read_text())
    hashes = {name_of(requirement): set() for requirement, _ in wanted}
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(wheels, python, platforms, [r for r, only in wanted if only in (None, system)])
                 for system, platforms in SYSTEMS for python in PYTHONS]
        for answer in concurrent.futures.as_completed(asked):
            for name, sha256 in answer.result().items():
                hashes[name].add(sha256)
    text = HEADER
    for requirement, system in wanted:
        marker = f'; sys_platform == "{system}"' if system else ""
        lines = [requirement + marker] + [f"--hash=sha256:{h}" for h in sorted(hashes[name_of(requirement)])]
        text += " \\\n    ".join(lines) + "\n"
    FILE.write_text(text)


if __name__ == "__main__":
    main()
