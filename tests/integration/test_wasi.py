"""WASI preview 1, call by call: what each answers, where it is allowed and where not. A case is a list of calls; its module
makes them one after the other and returns what they answered."""
import box
import pytest

# Errors of WASI.
OK, ACCES, BADF, EXIST, INVAL, ISDIR, NOENT, NOTDIR, NOTEMPTY, NOTSOCK, PERM, ROFS, NOTCAPABLE = 0, 2, 8, 20, 28, 31, 44, 54, 55, 57, 63, 69, 76
NOT_ALLOWED = (PERM, ROFS, NOTCAPABLE, ACCES)
INPUT, OUTPUT, TMP, HERE = 3, 4, 5, 6  # the directories that are open from the start
CREATE, DIRECTORY, EXCLUSIVE, TRUNCATE = 1, 2, 4, 8
READ, WRITE, ALL = 1 << 1, 1 << 6, (1 << 29) - 1

TYPES = {
    "args_sizes_get": "ii", "args_get": "ii", "environ_sizes_get": "ii", "clock_time_get": "iIi", "clock_res_get": "ii", "random_get": "ii",
    "fd_prestat_get": "ii", "fd_prestat_dir_name": "iii", "fd_close": "i", "fd_seek": "iIii", "fd_tell": "ii", "fd_read": "iiii", "fd_write": "iiii",
    "fd_pread": "iiIi" "i", "fd_pwrite": "iiIi" "i", "fd_readdir": "iiiIi", "fd_renumber": "ii", "fd_sync": "i", "fd_filestat_get": "ii",
    "fd_filestat_set_size": "iI", "fd_fdstat_get": "ii", "fd_fdstat_set_flags": "ii", "path_open": "iiiiiIIii", "path_create_directory": "iii",
    "path_remove_directory": "iii", "path_unlink_file": "iii", "path_rename": "iiiiii", "path_link": "iiiiiii", "path_symlink": "iiiii",
    "path_readlink": "iiiiii", "path_filestat_get": "iiiii", "poll_oneoff": "iiii", "sched_yield": "", "sock_shutdown": "ii", "sock_send": "iiiii",
}
TYPES["fd_pread"] = TYPES["fd_pwrite"] = "iiiIi"
LETTERS = {"i": "i32", "I": "i64"}
SPACE = 4096  # where answers go; an open file's number at the beginning of it
VECTOR = 2048  # one buffer of five bytes


class Path(str):
    """A text in memory: its place and its length."""


class Opened:
    """The number of the file that was opened last."""


OPENED = Opened()


def open_file(directory, path, flags=0, rights=READ | WRITE, follow=1):
    return ("path_open", directory, follow, Path(path), flags, rights, rights, 0, SPACE)


def module(calls):
    used = sorted({call[0] for call in calls})
    imports = "\n".join(f'(import "wasi_snapshot_preview1" "{name}" (func ${name} '
                        f'{"(param " + " ".join(LETTERS[letter] for letter in TYPES[name]) + ")" if TYPES[name] else ""} (result i32)))' for name in used)
    data, texts, body = 16, [], []
    for name, *given in calls:
        values = []
        for value in given:
            if isinstance(value, Path):
                text = value.encode()
                texts.append(f'(data (i32.const {data}) "{"".join(f"{chr(92)}{byte:02x}" for byte in text)}")')
                values += [data, len(text)]
                data += len(text)
            else:
                values.append(value)
        parts = [f"(i32.load (i32.const {SPACE}))" if value is OPENED else f"({LETTERS[letter]}.const {value})" for letter, value in zip(TYPES[name], values)]
        assert len(values) == len(TYPES[name]), name
        body.append(f"(call ${name} {' '.join(parts)})")
    vector = f'(data (i32.const {VECTOR}) "{chr(92)}00{chr(92)}0c{chr(92)}00{chr(92)}00{chr(92)}05") (data (i32.const 3072) "hello")'
    return (f'(module {imports} (memory (export "memory") 2) {vector} {"".join(texts)} (func (export "_initialize"))'
            f'(func (export "main") (result {" ".join(["i32"] * len(calls))}) {" ".join(body)}))')


BUFFER = (VECTOR, 1, SPACE + 8)

CASES = {
    "arguments and environment": ([("args_sizes_get", SPACE, SPACE + 4), ("args_get", SPACE, SPACE + 512), ("environ_sizes_get", SPACE, SPACE + 4)], [OK, OK, OK]),
    "clocks": ([("clock_time_get", 0, 1, SPACE), ("clock_time_get", 1, 1, SPACE), ("clock_res_get", 1, SPACE)], [OK, OK, OK]),
    "randomness": ([("random_get", SPACE, 64), ("random_get", SPACE, 0)], [OK, OK]),
    "directories that are open": ([("fd_prestat_get", INPUT, SPACE), ("fd_prestat_get", OUTPUT, SPACE), ("fd_prestat_get", TMP, SPACE), ("fd_prestat_get", HERE, SPACE),
                                   ("fd_prestat_get", 7, SPACE), ("fd_prestat_get", 1, SPACE)], [OK, OK, OK, OK, BADF, BADF]),
    "relative names are those of the output": ([open_file(HERE, "x", CREATE), open_file(OUTPUT, "x", CREATE | EXCLUSIVE), open_file(TMP, "x")], [OK, EXIST, NOENT]),
    "a directory of one's own": ([open_file(TMP, "x", CREATE), open_file(OUTPUT, "x"), open_file(TMP, "../x", CREATE), ("path_unlink_file", TMP, Path("x"))], [OK, NOENT, NOT_ALLOWED, OK]),
    "name of a directory in too little room": ([("fd_prestat_dir_name", INPUT, SPACE, 2), ("fd_prestat_dir_name", INPUT, SPACE, 11)], [(37, INVAL), OK]),
    "a file is made, written, read, told": ([open_file(OUTPUT, "x", CREATE), ("fd_write", OPENED, *BUFFER), ("fd_tell", OPENED, SPACE + 16), ("fd_seek", OPENED, 0, 0, SPACE + 16),
                                             ("fd_read", OPENED, *BUFFER), ("fd_sync", OPENED), ("fd_filestat_get", OPENED, SPACE + 64), ("fd_close", OPENED), ("fd_close", OPENED)],
                                            [OK] * 8 + [BADF]),
    "reading and writing at a place": ([open_file(OUTPUT, "x", CREATE), ("fd_pwrite", OPENED, VECTOR, 1, 100, SPACE + 8), ("fd_pread", OPENED, VECTOR, 1, 100, SPACE + 8),
                                        ("fd_filestat_set_size", OPENED, 3), ("fd_seek", OPENED, -1, 0, SPACE + 16)], [OK, OK, OK, OK, INVAL]),
    "what is there is not made again": ([open_file(OUTPUT, "x", CREATE), open_file(OUTPUT, "x", CREATE | EXCLUSIVE), open_file(OUTPUT, "y"), open_file(OUTPUT, "x", DIRECTORY)],
                                        [OK, EXIST, NOENT, NOTDIR]),
    "directories": ([("path_create_directory", OUTPUT, Path("d")), ("path_create_directory", OUTPUT, Path("d")), open_file(OUTPUT, "d/x", CREATE),
                     ("path_remove_directory", OUTPUT, Path("d")), ("path_unlink_file", OUTPUT, Path("d")), ("path_unlink_file", OUTPUT, Path("d/x")),
                     ("path_remove_directory", OUTPUT, Path("d/")), ("path_remove_directory", OUTPUT, Path("d"))],
                    [OK, EXIST, OK, NOTEMPTY, (ISDIR, PERM), OK, (OK, INVAL), (NOENT, OK)]),
    "names are changed": ([open_file(OUTPUT, "x", CREATE), ("path_rename", OUTPUT, Path("x"), OUTPUT, Path("y")), ("path_rename", OUTPUT, Path("x"), OUTPUT, Path("z")),
                           ("path_filestat_get", OUTPUT, 1, Path("y"), SPACE + 64), ("fd_readdir", OUTPUT, SPACE + 64, 512, 0, SPACE + 32)], [OK, OK, NOENT, OK, OK]),
    "trailing slashes": ([open_file(OUTPUT, "x", CREATE), open_file(OUTPUT, "x/"), ("path_unlink_file", OUTPUT, Path("x/")), open_file(OUTPUT, "new/", CREATE)],
                         [OK, NOTDIR, NOTDIR, (ISDIR, NOENT, NOTDIR, INVAL)]),
    "links inside": ([open_file(OUTPUT, "x", CREATE), ("path_symlink", Path("x"), OUTPUT, Path("l")), open_file(OUTPUT, "l"), ("path_readlink", OUTPUT, Path("l"), SPACE + 64, 64, SPACE + 32),
                      open_file(OUTPUT, "l", follow=0)], [OK, OK, OK, OK, 32]),
    "links that lead out": ([("path_symlink", Path("/etc/passwd"), OUTPUT, Path("a")), ("path_symlink", Path("../../../../etc/passwd"), OUTPUT, Path("b")), open_file(OUTPUT, "b"),
                             ("path_symlink", Path("../.."), OUTPUT, Path("c")), open_file(OUTPUT, "c/etc/passwd"), ("path_filestat_get", OUTPUT, 1, Path("c"), SPACE + 64)],
                            [NOT_ALLOWED, OK, NOT_ALLOWED, OK, NOT_ALLOWED, NOT_ALLOWED]),
    "paths that lead out": ([open_file(OUTPUT, path) for path in ("/etc/passwd", "..", "../x", "a/../../x", "./../../../../etc/passwd", "//etc/passwd", "/", "../output/x")],
                            [(*NOT_ALLOWED, NOENT)] * 8),
    "an empty path and one with a NUL": ([open_file(OUTPUT, "", CREATE), open_file(OUTPUT, "a\0b", CREATE)], [(NOENT, INVAL), (INVAL, 25, NOENT)]),
    "input is read-only": ([open_file(INPUT, "given", rights=READ), ("fd_read", OPENED, *BUFFER), ("fd_write", OPENED, *BUFFER), open_file(INPUT, "given", TRUNCATE), open_file(INPUT, "new", CREATE),
                            ("path_create_directory", INPUT, Path("d")), ("path_unlink_file", INPUT, Path("given")), ("path_symlink", Path("given"), INPUT, Path("l")),
                            ("path_rename", INPUT, Path("given"), OUTPUT, Path("given")), ("path_rename", INPUT, Path("given"), INPUT, Path("other"))],
                           [OK, OK, (BADF, *NOT_ALLOWED)] + [NOT_ALLOWED] * 7),
    "nothing is moved or linked into input": ([open_file(OUTPUT, "x", CREATE), ("path_rename", OUTPUT, Path("x"), INPUT, Path("x")), ("path_link", OUTPUT, 0, Path("x"), INPUT, Path("x"))],
                                              [OK, NOT_ALLOWED, NOT_ALLOWED]),
    "numbers that are not open": ([("fd_read", 99, *BUFFER), ("fd_write", 99, *BUFFER), ("fd_close", 99), ("fd_readdir", 99, SPACE, 64, 0, SPACE + 128), open_file(99, "x"), ("fd_seek", -1, 0, 0, SPACE)], [BADF] * 6),
    "streams are no directories": ([open_file(0, "x"), ("fd_readdir", 1, SPACE, 64, 0, SPACE + 128), ("fd_seek", 1, 0, 0, SPACE)], [(NOTDIR, BADF), (NOTDIR, BADF), (70, BADF, 29)]),
    "a stream that was closed": ([("fd_close", 1), ("fd_write", 1, *BUFFER)], [OK, BADF]),
    "no sockets": ([("sock_shutdown", 3, 1), ("sock_send", 1, VECTOR, 1, 0, SPACE)], [(NOTSOCK, BADF, 58), (NOTSOCK, BADF, 58)]),
    "others may have their turn": ([("sched_yield",)], [OK]),
    "nothing to wait for": ([("poll_oneoff", SPACE, SPACE + 512, 0, SPACE + 1024)], [INVAL]),
}


@pytest.mark.parametrize("name", CASES)
def test_case(name, tmp_path):
    calls, wanted = CASES[name]
    (tmp_path / "given").write_text("hello")
    result = box.run("--language", "wasm", "--call", "main", "--input", tmp_path / "given", "-e", module(calls))
    answers = result.returned
    assert len(answers) == len(wanted)
    for call, answer, allowed in zip(calls, answers, wanted):
        assert answer in (allowed if isinstance(allowed, tuple) else (allowed,)), (name, call, answer, answers)


@pytest.mark.parametrize("code, shown", [(0, 0), (1, 1), (42, 42), (125, 125), (126, 126), (134, 134), (255, 255), (256, 0), (-1, 255)])
def test_exit_codes(code, shown):
    text = f'(module (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32))) (memory (export "memory") 1) (func (export "_start") (call $exit (i32.const {code})) unreachable))'
    result = box.run("--language", "wasm", "-e", text)
    assert (result.cause, result.exit_code) == ("exit", shown), result


def test_a_clock_that_is_none_is_a_trap():
    result = box.run("--language", "wasm", "--call", "main", "-e", module([("clock_time_get", 77, 1, SPACE)]))
    assert (result.cause, result.trap) == ("trap", "host") and "Clockid" in result.detail, result
