#!/usr/bin/env python3
"""Turns languages.json into the built-in rows of language.c, so that no start has to parse it.

Usage: generate_languages.py languages.json languages_table.h"""
import json
import sys

ROW_KEYS = {"name", "extensions", "find", "file", "run", "probe", "compile", "environment", "missing",
            "context", "spare", "engine", "vet"}
COMPILE_KEYS = {"find", "run", "environment", "artifact"}
CONTEXT_KEYS = {"file", "run"}
VET_KEYS = {"file", "run"}
SPARE_KEYS = {"file", "run", "stays"}


def text(value):
    return json.dumps(value, ensure_ascii=True) if value is not None else "NULL"


def string_list(items):
    if not items:
        return "{0}"
    return "{(char *[]){%s}, %d}" % (", ".join(text(item) for item in items), len(items))


def step(row):
    environment = [f"{name}={value}" for name, value in row.get("environment", {}).items()]
    return "{%s, %s, %s}" % (string_list(row.get("find")), string_list(row["run"]), string_list(environment))


def check_keys(row, known):
    if row.keys() - known:
        sys.exit(f"languages.json: {row.get('name')}: not a field of a language: {row.keys() - known}")


def language(row):
    check_keys(row, ROW_KEYS)
    compiled = row.get("compile")
    if compiled:
        check_keys(compiled, COMPILE_KEYS)
    context = row.get("context")
    if context:
        check_keys(context, CONTEXT_KEYS)
        context = {**context, "environment": row.get("environment", {})}
    spare = row.get("spare")
    if spare:
        check_keys(spare, SPARE_KEYS)
        spare = {**spare, "environment": row.get("environment", {})}
    vet = row.get("vet")
    if vet:
        check_keys(vet, VET_KEYS)
    return f"""    {{
        .name = {text(row["name"])},
        .extensions = {string_list(row.get("extensions"))},
        .file = {text(row["file"])},
        .missing = {text(row.get("missing"))},
        .is_wasm = {"true" if row.get("engine") == "wasm" else "false"},
        .artifact = {text(compiled["artifact"] if compiled else None)},
        .has_compile = {"true" if compiled else "false"},
        .compile = {step(compiled) if compiled else "{{0}}"},
        .run = {step(row)},
        .probe = {string_list(row.get("probe"))},
        .context_file = {text(context["file"] if context else None)},
        .context = {step(context) if context else "{{0}}"},
        .spare_file = {text(spare["file"] if spare else None)},
        .spare_stays = {"true" if spare and spare.get("stays") else "false"},
        .spare = {step(spare) if spare else "{{0}}"},
        .vet_file = {text(vet["file"] if vet else None)},
        .vet = {step(vet) if vet else "{{0}}"},
    }},
"""


def main():
    source, target = sys.argv[1:]
    with open(source, encoding="utf-8") as file:
        rows = json.load(file)
    with open(target, "w", encoding="utf-8") as file:
        file.write("/* Made from languages.json. */\n")
        file.write("static const struct language builtin_languages[] = {\n")
        file.writelines(language(row) for row in rows)
        file.write("};\n")


main()
