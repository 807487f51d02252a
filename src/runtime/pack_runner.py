#!/usr/bin/env python3
"""Packs the runners of contexts, each into one file that its interpreter executes, as bytes of the library.

Usage: pack_runner.py GUEST_FOLDER fork.so cloche-shell cloche-files runner.js runner_archives.h

Python: an archive of modules, with the library that forks it; the first filter as another, of its own modules. JavaScript: one script with the modules in it, written as
runner.js too, for the tests; that of spares stands alone. Bash: a program of its own, see guest/bash. With them
goes the tool for a box's files, guest/files."""
import io
import json
import pathlib
import sys
import zipfile

MAIN = "from cloche.{} import main\nmain()\n"
LONG_AGO = (1980, 1, 1, 0, 0, 0)  # so that the same sources make the same bytes

SCRIPT = """\
"use strict";
// Made from guest/javascript.
// Names of the code's own stand before the global ones, here too: a `let Promise` must not become ours.
const { Array, ArrayBuffer, Atomics, Buffer, Error, Int32Array, JSON, Map, Math, Number, Object, Promise, Proxy, RangeError, Set,
  SharedArrayBuffer, String, Symbol, SyntaxError, TypeError, WeakSet, clearInterval, process, setImmediate, setInterval, setTimeout } = globalThis;
const modules = {};
const loaded = {};
function load(name) {
  if (!modules[name]) return require(name);
  if (!loaded[name]) {
    loaded[name] = { exports: {} };
    modules[name](loaded[name], load);
  }
  return loaded[name].exports;
}
"""


def python_archive(folder, main, modules, library=None):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as into:
        into.writestr(zipfile.ZipInfo("__main__.py", LONG_AGO), MAIN.format(main))
        for path in sorted(path for pattern in modules for path in folder.glob(f"cloche/{pattern}")):
            into.writestr(zipfile.ZipInfo(str(path.relative_to(folder)), LONG_AGO), path.read_text(encoding="utf-8"))
        if library:
            into.writestr(zipfile.ZipInfo("cloche/fork.so", LONG_AGO), library.read_bytes())
        if "cloche/__init__.py" not in into.namelist():
            into.writestr(zipfile.ZipInfo("cloche/__init__.py", LONG_AGO), "")
    return packed.getvalue()


def javascript_script(folder):
    parts = [SCRIPT]
    for path in sorted(folder.glob("cloche/*.js")):
        name = json.dumps(f"./{path.stem}")
        parts.append(f"modules[{name}] = (module, require) => {{\n{path.read_text(encoding='utf-8')}}};\n")
    parts.append('load("./runner");\n')
    return "".join(parts).encode()


def write_array(header, name, content):
    lines = [", ".join(map(str, content[at:at + 32])) for at in range(0, len(content), 32)]
    header.write(f"static const unsigned char runner_{name}[] = {{\n    ")
    header.write(",\n    ".join(lines))
    header.write("};\n")


def main():
    guest, fork_library, shell, files, script, target = map(pathlib.Path, sys.argv[1:])
    script.write_bytes(javascript_script(guest / "javascript"))
    with open(target, "w", encoding="ascii") as header:
        header.write("/* Made from guest/. */\n")
        write_array(header, "python", python_archive(guest / "python", "runner", ["*.py"], fork_library))
        write_array(header, "javascript", script.read_bytes())
        write_array(header, "javascript_spare", (guest / "javascript" / "spare.cjs").read_bytes())
        write_array(header, "python_vet", python_archive(guest / "python", "vet", ["vet*.py"]))
        write_array(header, "python_restricted", (guest / "python" / "restricted.py").read_bytes())
        write_array(header, "javascript_vet", (guest / "javascript" / "vet.cjs").read_bytes())
        write_array(header, "bash", shell.read_bytes())
        write_array(header, "files", files.read_bytes())


main()
