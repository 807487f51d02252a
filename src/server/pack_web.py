#!/usr/bin/env python3
"""Makes the files of web/ bytes of the server, so that one program serves them without a network; and those parts of the
runners that work in a browser, too.

Usage: pack_web.py WEB_FOLDER GUEST_FOLDER openapi.json web_files.h"""
import base64
import hashlib
import pathlib
import re
import sys

TYPES = {".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
         ".mjs": "text/javascript; charset=utf-8", ".svg": "image/svg+xml", ".png": "image/png", ".ico": "image/x-icon",
         ".json": "application/json", ".py": "text/x-python; charset=utf-8", ".woff2": "font/woff2", ".txt": "text/plain; charset=utf-8"}
BYTES_PER_LINE = 40
# How code is run, and how values are shown, is the same in a page as in a box.
SHARED = ("python/cloche/__init__.py", "python/cloche/execute.py", "python/cloche/reporting.py", "python/cloche/rich.py",
          "javascript/cloche/rich.js")


def literal(content):
    lines = (content[at:at + BYTES_PER_LINE] for at in range(0, len(content), BYTES_PER_LINE))
    return "\n".join('     "' + "".join(f"\\{byte:03o}" for byte in line) + '"' for line in lines) or '     ""'


def inline_scripts(path, content):
    """Sources of a policy that allows the scripts in the text of a page, and no others."""
    if path.suffix != ".html":
        return ""
    found = re.findall(rb"<script>(.*?)</script>", content, re.S)
    return " ".join(f"'sha256-{base64.b64encode(hashlib.sha256(text).digest()).decode()}'" for text in found)


def main():
    folder, guest, description, target = map(pathlib.Path, sys.argv[1:])
    files = {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if path.is_file()}
    files["openapi.json"] = description
    files |= {f"guest/{name}": guest / name for name in SHARED}
    rows = []
    for name, path in files.items():
        if path.suffix not in TYPES:
            continue
        content = path.read_bytes()
        tag = hashlib.sha256(content).hexdigest()[:16]
        rows.append(f'    {{"{name}", "{TYPES[path.suffix]}", "\\"{tag}\\"", "{inline_scripts(path, content)}", {len(content)},\n'
                    f'{literal(content)}}},\n')
    target.write_text("/* Made by pack_web.py from web/. */\n#pragma once\n\n#include <stddef.h>\n\nstatic const struct web_file {\n"
                      "    const char *path, *type, *tag, *scripts;\n    size_t length;\n    const char *content;\n} web_files[] = {\n"
                      + "".join(rows) + "};\n")


if __name__ == "__main__":
    main()
