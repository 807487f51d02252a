#!/usr/bin/env python3
"""Makes the files of web/ bytes of the server, so that one program serves them without a network.

Usage: pack_web.py WEB_FOLDER openapi.json web_files.h"""
import hashlib
import pathlib
import sys

TYPES = {".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
         ".mjs": "text/javascript; charset=utf-8", ".svg": "image/svg+xml", ".png": "image/png", ".ico": "image/x-icon",
         ".json": "application/json", ".woff2": "font/woff2", ".txt": "text/plain; charset=utf-8"}
BYTES_PER_LINE = 40


def literal(content):
    lines = (content[at:at + BYTES_PER_LINE] for at in range(0, len(content), BYTES_PER_LINE))
    return "\n".join('     "' + "".join(f"\\{byte:03o}" for byte in line) + '"' for line in lines) or '     ""'


def main():
    folder, description, target = map(pathlib.Path, sys.argv[1:])
    files = {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if path.is_file()}
    files["openapi.json"] = description
    rows = []
    for name, path in files.items():
        if path.suffix not in TYPES:
            continue
        content = path.read_bytes()
        tag = hashlib.sha256(content).hexdigest()[:16]
        rows.append(f'    {{"{name}", "{TYPES[path.suffix]}", "\\"{tag}\\"", {len(content)},\n'
                    f'{literal(content)}}},\n')
    target.write_text("/* Made by pack_web.py from web/. */\n#pragma once\n\n#include <stddef.h>\n\nstatic const struct web_file {\n"
                      "    const char *path, *type, *tag;\n    size_t length;\n    const char *content;\n} web_files[] = {\n"
                      + "".join(rows) + "};\n")


if __name__ == "__main__":
    main()
