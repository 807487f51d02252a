"""The house in order: who may include whom (by the table in docs/architecture.md), sizes, names, layout, and that help, man
page and documents name every option and limit."""
import functools
import os
import pathlib
import re
import shutil
import subprocess

import box
import pytest

ROOT = box.ROOT
LINES_PER_FILE, LINES_PER_FUNCTION = 800, 100
GENERATED_HEADERS = {"seccomp_programs.h", "languages_table.h", "runner_archives.h", "web_files.h", "profile_stamp.h", "wasm_prelude.h"}


@functools.cache
def tracked():
    """Every file of the project, relative to its root; what git would take is one, what it ignores is not."""
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT,
                            capture_output=True)
    if listed.returncode == 0:
        names = [name for name in os.fsdecode(listed.stdout).split("\0") if name]
    else:  # an unpacked archive
        names = [str(path.relative_to(ROOT)) for path in ROOT.rglob("*")
                 if not any(part.startswith((".git", "build", "__pycache__")) for part in path.relative_to(ROOT).parts)]
    return sorted(pathlib.Path(name) for name in set(names) if (ROOT / name).is_file())


def text_of(path):
    """The content, or None for what is not text (seeds of fuzz targets may be anything)."""
    try:
        return (ROOT / path).read_bytes().decode()
    except UnicodeDecodeError:
        return None


def sources(*tops, suffixes=(".c", ".h")):
    return [path for path in tracked() if path.suffix in suffixes and (not tops or path.parts[0] in tops)]


def blanked(code):
    """The code with comments and texts blanked, every line in its place."""
    pattern = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
    return pattern.sub(lambda found: re.sub(r"[^\n]", " ", found.group()), code)


def listing(faults):
    return "\n" + "\n".join(map(str, faults))


# ---- who may include whom ----

def folder_table():
    """{folder: names that it may include}, from the section '## Folders' of docs/architecture.md."""
    path = ROOT / "docs" / "architecture.md"
    if not path.exists():
        pytest.fail("docs/architecture.md is missing: it must hold the table of folders that this test checks against")
    section = re.search(r"^## Folders\n(.*?)(?=^## |\Z)", path.read_text(), re.S | re.M)
    if not section:
        pytest.fail("docs/architecture.md has no section '## Folders'")
    table = {}
    for line in section.group(1).splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("|") and re.fullmatch(r"`[\w/]+`", cells[0]):
            allowed = {name.strip(" `").removeprefix("src/") for name in cells[-1].split(",")} - {"", "-", "—"}
            table[cells[0].strip("`")] = allowed
    if not table:
        pytest.fail("the section '## Folders' has no rows of the form | `src/base` | what it is | base |")
    return table


def folder_of(path, table):
    """The row that a file belongs to: the longest one that it lies below."""
    rows = [row for row in table if path.is_relative_to(row)]
    return max(rows, key=len) if rows else None


def included_files(path):
    """(line, file in the tree) for every header of ours that a file includes."""
    found = []
    for number, line in enumerate(text_of(path).splitlines(), 1):
        match = re.match(r'\s*#\s*include\s+(?:"([^"]+)"|<(cloche/[^>]+)>)', line)
        if not match:
            continue
        name = match.group(1) or match.group(2)
        places = [path.parent, *map(pathlib.Path, ("src", "guest", "guest/init", "include"))]
        header = next((place / name for place in places if (ROOT / place / name).exists()), None)
        if header:
            found.append((number, pathlib.Path(os.path.normpath(header))))
        elif name not in GENERATED_HEADERS:
            found.append((number, pathlib.Path("missing") / name))
    return found


def test_folders_of_the_table_are_those_of_the_tree():
    table = folder_table()
    faults = [f"{row}: in the table, not in the tree" for row in table if not (ROOT / row).is_dir()]
    faults += [f"{path.parent}: not in the table" for path in sources("src", "guest") if not folder_of(path, table)]
    known = {row.removeprefix("src/") for row in table}
    faults += [f"{row} may include {name}, which is no folder of the table"
               for row, allowed in table.items() for name in allowed if name not in known]
    assert not faults, listing(sorted(set(faults)))


def test_includes_follow_the_table():
    table = folder_table()
    faults = []
    for path in sources("src", "guest"):
        own = folder_of(path, table)
        if not own:
            continue  # told by the test above
        for number, header in included_files(path):
            other = folder_of(header, table)
            if header.parts[0] == "include":
                if own != "src/library":
                    faults.append(f"{path}:{number}: {header}: the public API is for src/library and for users")
            elif not other:
                faults.append(f"{path}:{number}: {header}: in no folder of the table")
            elif other != own and other.removeprefix("src/") not in table[own]:
                faults.append(f"{path}:{number}: {header}: {own} may not include {other}")
    assert not faults, listing(faults)


def test_table_goes_in_one_direction():
    """Beside pairs of a folder and what lies below it, no two folders may include each other."""
    table = {row.removeprefix("src/"): allowed for row, allowed in folder_table().items()}
    faults = [f"{one} and {other} may include each other" for one, allowed in table.items() for other in allowed
              if one < other and one in table.get(other, ()) and not pathlib.Path(other).is_relative_to(one)]
    assert not faults, listing(faults)


def test_engines_never_include_each_other():
    faults = []
    for path in sources("src"):
        if len(path.parts) < 4 or path.parts[1] != "engine":
            continue
        faults += [f"{path}:{number}: {header}" for number, header in included_files(path)
                   if header.parts[:2] == ("src", "engine") and len(header.parts) > 3 and header.parts[2] != path.parts[2]]
    shared = [f"{path}:{number}: {header}" for path in sources("src") if path.parent == pathlib.Path("src/engine")
              for number, header in included_files(path) if len(header.parts) > 3 and header.parts[1] == "engine"]
    assert not faults + shared, listing(faults + shared)


def test_public_headers_stand_alone():
    faults = []
    for path in sources("include"):
        for number, line in enumerate(text_of(path).splitlines(), 1):
            match = re.match(r"\s*#\s*include\s+(\S+)", line)
            if match and not re.fullmatch(r"<(cloche/\w+|stdint|stddef|stdbool)\.h>", match.group(1)):
                faults.append(f"{path}:{number}: {match.group(1)}")
    assert not faults, listing(faults)


# ---- sizes ----

def is_program_text(path):
    if path.suffix in (".c", ".h", ".S", ".py", ".build", ".js", ".go", ".sh"):
        return True
    return not path.suffix and (text_of(path) or "").startswith("#!")


def test_no_file_is_too_long():
    lengths = {path: (text_of(path) or "").count("\n") for path in tracked() if is_program_text(path)}
    faults = [f"{path}: {length} lines" for path, length in lengths.items() if length > LINES_PER_FILE]
    assert not faults, f"more than {LINES_PER_FILE} lines:" + listing(faults)


def functions_of(path):
    """(name, first line, lines) of every function of a C file: from its brace in the first column to the one that ends it."""
    lines = blanked(text_of(path)).split("\n")
    start = None
    for number, line in enumerate(lines, 1):
        if line.rstrip() == "{" and start is None:
            head = " ".join(lines[max(0, number - 6):number - 1])
            names = re.findall(r"(\w+)\s*\(", re.split(r"[;}]", head)[-1])
            start, name = number, names[0] if names else "?"
        elif line.startswith("}") and start is not None:
            yield name, start, number - start + 1
            start = None


def test_no_function_is_too_long():
    faults = [f"{path}:{line}: {name}: {length} lines" for path in sources() if path.suffix == ".c"
              for name, line, length in functions_of(path) if length > LINES_PER_FUNCTION]
    assert not faults, f"more than {LINES_PER_FUNCTION} lines:" + listing(faults)


def test_functions_are_found_at_all():
    names = {name for path in sources("src") if path.suffix == ".c" for name, _, _ in functions_of(path)}
    assert {"spec_set", "buffer_append", "collect_files", "supervise_run"} <= names


# ---- names ----

def test_no_file_is_named_after_nothing():
    faults = [path for path in tracked() for part in path.parts
              if {"util", "utils", "common", "misc", "helper", "helpers"} & set(re.split(r"[-_.]", part.lower()))]
    assert not faults, listing(faults)


def test_no_types_of_our_own_end_in_t():
    faults = []
    for path in sources():
        if str(path) == "guest/wasm/api.h":
            continue  # Wasmtime's own names
        code = blanked(text_of(path))
        for match in re.finditer(r"\btypedef\b[^;{]*(?:\{[^}]*\}[^;]*)?\b(\w+_t)\s*;|\b(?:struct|union|enum)\s+(\w+_t)\s*\{", code):
            line = code.count("\n", 0, match.start()) + 1
            faults.append(f"{path}:{line}: {match.group(1) or match.group(2)}")
    assert not faults, listing(faults)


def test_no_name_begins_with_an_underscore():
    faults = []
    for path in sources("src", "guest", "include"):
        code = blanked(text_of(path))
        for match in re.finditer(r"^(?:static |const |struct |inline |int |void |bool )+\**(_\w+)\s*[(;=\[]", code, re.M):
            faults.append(f"{path}: {match.group(1)}")
    assert not faults, listing(faults)


# ---- nothing of this machine ----

def hits(pattern, paths):
    for path in paths:
        for number, line in enumerate((text_of(path) or "").splitlines(), 1):
            match = re.search(pattern, line)
            if match:
                yield f"{path}:{number}: {line.strip()[:120]}"


def test_no_paths_of_the_machine_that_it_was_written_on():
    """The patterns are put together here, or this file would be the first fault. A hidden file in root's home may be named: it
    is that of any machine."""
    pattern = r"(?<![\w./}])/" + r"(?:work/|root/[A-Za-z0-9_])"
    faults = list(hits(pattern, tracked()))
    assert not faults, listing(faults)


def test_no_names_of_package_registries():
    """What a build needs comes from where the machine is told to take it from."""
    registries = [("pypi", "org"), ("pythonhosted", "org"), ("npmjs", "org"), ("npmjs", "com"), ("yarnpkg", "com"),
                  ("crates", "io"), ("golang", "org"), ("rubygems", "org"), ("deb", "debian", "org"),
                  ("security", "debian", "org"), ("archive", "ubuntu", "com"), ("registry-1", "docker", "io"),
                  ("ghcr", "io"), ("quay", "io"), ("maven", "org")]
    pattern = r"(?i)\b(?:" + "|".join(r"\.".join(map(re.escape, name)) for name in registries) + r")\b"
    faults = list(hits(pattern, tracked()))
    assert not faults, listing(faults)


def test_shipped_program_has_no_door_for_tests():
    """Hardening steps can be removed by name in the test program; in what is installed there is nothing to ask."""
    door = b"CLOCHE_WEAKEN"
    assert door in box.WEAK.read_bytes(), "the test program has no door either: this test looks for the wrong thing"
    shipped = [box.CLOCHE, box.BUILD / "cloche-init", *box.BUILD.glob("libcloche.so*"), box.BUILD / "libcloche.a"]
    assert not [path for path in shipped if path.is_file() and door in path.read_bytes()]


# ---- help, man page, documents ----

def options():
    """{command: names of its options}, from the tables of src/cli."""
    found = {}
    shared = re.search(r"#define RUN_OPTIONS_THAT_DECIDE\(X\)(.*?)\n\n", text_of(pathlib.Path("src/cli/run_options.h")), re.S).group(1)
    for path in sources("src"):
        if path.parent != pathlib.Path("src/cli") or not path.name.startswith("command_"):
            continue
        table = re.search(r"struct option_row \w+\[\] = \{(.*?)\n\};", text_of(path), re.S)
        if table:
            rows = table.group(1).replace("RUN_OPTIONS_THAT_DECIDE(X)", shared)
            found[path.stem.removeprefix("command_")] = re.findall(r'^\s*(?:\{|X\()"([\w-]+)",', rows, re.M)
    return found


def limits():
    """Names of all limits, from the table of src/spec/limits.h."""
    return re.findall(r"^\s*X\((\w+), LIMIT_", text_of(pathlib.Path("src/spec/limits.h")), re.M)


def help_of(command):
    done = subprocess.run([box.CLOCHE, "help", command], capture_output=True, text=True, check=True)
    return done.stdout


def documents():
    paths = [path for path in tracked() if path.suffix == ".md" and (path.parts[0] == "docs" or path == pathlib.Path("README.md"))]
    return "\n".join(text_of(path) for path in paths)


def is_named(option, text):
    return re.search(rf"--{re.escape(option)}(?![\w-])", text) is not None


def test_tables_are_found_at_all():
    assert {"memory", "wall", "json", "help", "spec", "config"} <= set(options()["run"])
    assert {"memory", "cpu", "wall", "cpus", "pids", "disk", "collect_files"} <= set(limits())


def test_every_limit_is_an_option():
    missing = [name for name in limits() if name.replace("_", "-") not in options()["run"]]
    assert not missing, listing(missing)


def test_help_names_every_option_and_limit():
    faults = []
    for command, names in options().items():
        text = help_of(command)
        faults += [f"cloche help {command}: --{name}" for name in names if not is_named(name, text)]
    text = help_of("run")
    faults += [f"cloche help run: limit {name}" for name in limits() if not is_named(name.replace("_", "-"), text)]
    assert not faults, "not in the help:" + listing(faults)


def test_man_page_names_every_option_and_limit():
    page = (box.BUILD / "cloche.1").read_text().replace("\\-", "-")
    names = {name for of_command in options().values() for name in of_command} | {name.replace("_", "-") for name in limits()}
    missing = sorted(name for name in names if not is_named(name, page))
    assert not missing, "not in the man page:" + listing(missing)


def test_documents_name_every_option():
    text = documents()
    missing = [f"{command}: --{name}" for command, names in options().items() for name in names
               if name != "help" and not is_named(name, text)]
    assert not missing, "neither in docs/ nor in README.md:" + listing(missing)


def test_commands_document_is_what_help_says():
    """To write it anew: CLOCHE_WRITE=1."""
    overview = subprocess.run([box.CLOCHE, "help"], capture_output=True, text=True, check=True).stdout
    names = [name for name in re.findall(r"^  cloche (\w+)", overview.split("Exit codes")[0], re.M)
             if name not in ("help", "version")]
    told = ["# Commands and options\n\nWhat `cloche help` says; the man page has the same.\n"]
    told += [f"\n## cloche {name}\n\n```\n{help_of(name)}```\n" for name in names]
    path = ROOT / "docs" / "commands.md"
    if os.environ.get("CLOCHE_WRITE"):
        path.write_text("".join(told))
    assert path.read_text() == "".join(told)


def test_documents_name_every_limit():
    text = documents()
    missing = [name for name in limits() if not re.search(rf"(?<![\w-]){name}(?![\w-])", text)]
    assert not missing, "neither in docs/ nor in README.md:" + listing(missing)


def test_every_setting_is_documented():
    source = (ROOT / "src/spec/policy.c").read_text()
    names = set(re.findall(r'strcmp\(key, "([\w.]+)"\)', source)) | set(re.findall(r'^        \{"([\w.]+)", text_parse', source, re.M))
    names |= {f"vet.{name}" for name in re.findall(r'\{"(\w+_(?:modules|calls))"', (ROOT / "src/spec/vet.c").read_text())}
    names |= set(re.findall(r'strcmp\(key, "([\w.]+)"\)', (ROOT / "src/spec/warm.c").read_text()))
    assert len(names) > 22, names
    for path, text in (("docs/configuration.md", (ROOT / "docs/configuration.md").read_text()),
                       ("the man page", subprocess.run([box.CLOCHE, "man"], capture_output=True, text=True).stdout)):
        missing = sorted(name for name in names if not re.search(rf"(?<![\w.]){re.escape(name)}(?![\w])", text))
        assert not missing, f"not in {path}:" + listing(missing)


# ---- layout ----

def test_code_is_laid_out_by_clang_format():
    if not shutil.which("clang-format"):
        pytest.skip("clang-format is not installed")
    paths = sources()
    done = subprocess.run(["clang-format", "--dry-run", "-Werror", *map(str, paths)], cwd=ROOT, capture_output=True, text=True)
    faults = sorted(set(re.findall(r"^(\S+?):\d+:\d+: error: ", done.stderr, re.M)))
    if done.returncode:
        pytest.fail(f"{len(faults)} of {len(paths)} files; `make format` puts them right:" + listing(faults))
