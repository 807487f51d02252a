#!/usr/bin/env python3
"""Packs the Python runner into one archive that the interpreter can execute, as bytes of the library.

Usage: pack_runner.py GUEST_FOLDER fork.so runner_archive.h"""
import io
import pathlib
import sys
import zipfile

MAIN = "from cloche.runner import main\nmain()\n"
LONG_AGO = (1980, 1, 1, 0, 0, 0)  # so that the same sources make the same bytes


def archive(folder, fork_library):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as into:
        into.writestr(zipfile.ZipInfo("__main__.py", LONG_AGO), MAIN)
        for path in sorted(folder.glob("cloche/*.py")):
            into.writestr(zipfile.ZipInfo(str(path.relative_to(folder)), LONG_AGO), path.read_text(encoding="utf-8"))
        into.writestr(zipfile.ZipInfo("cloche/fork.so", LONG_AGO), fork_library.read_bytes())
    return packed.getvalue()


def main():
    content = archive(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
    lines = [", ".join(map(str, content[at:at + 32])) for at in range(0, len(content), 32)]
    with open(sys.argv[3], "w", encoding="ascii") as header:
        header.write("/* Made from guest/python. */\nstatic const unsigned char runner_archive[] = {\n    ")
        header.write(",\n    ".join(lines))
        header.write("};\n")


main()
