"""libcloche: a program of its own runs a spec without any daemon."""
import json
import os
import shutil
import subprocess

import box
import pytest


@pytest.fixture(scope="module")
def sanitizers():
    """What a program must be linked with if the library was."""
    done = subprocess.run(["meson", "introspect", "--buildoptions", str(box.BUILD)], capture_output=True, text=True)
    options = {item["name"]: item["value"] for item in json.loads(done.stdout)} if done.returncode == 0 else {}
    wanted = options.get("b_sanitize", "none")
    return [f"-fsanitize={wanted}"] if wanted and wanted != "none" else []


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    """The library installed where nobody looks by himself."""
    root = tmp_path_factory.mktemp("installed")
    done = subprocess.run(["meson", "install", "-C", str(box.BUILD), "--no-rebuild", "--quiet", "--destdir", str(root)],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    yield root
    shutil.rmtree(root)


def pkg_config(prefix, *args):
    """What pkg-config says of the installed library, with the prefix where it really is."""
    environment = {**os.environ, "PKG_CONFIG_PATH": str(next(prefix.rglob("cloche.pc")).parent)}
    top = next(prefix.rglob("cloche.h")).parents[2]
    done = subprocess.run(["pkg-config", f"--define-variable=prefix={top}", *args], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def static_flags(prefix):
    """The static library, and the shared ones that it needs in turn."""
    needed = pkg_config(prefix, "--print-requires-private", "cloche")
    return [*pkg_config(prefix, "--cflags", "cloche"), next(prefix.rglob("libcloche.a")), *pkg_config(prefix, "--libs", *needed),
            "-pthread", "-lm"]


def compile_program(source, output, *flags):
    done = subprocess.run(["gcc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-o", str(output), str(source), *map(str, flags)],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return output


EXAMPLE = box.ROOT / "examples" / "run_code.c"


def test_example_of_the_build_works():
    done = subprocess.run([box.BUILD / "example-run-code"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "stdout: 42\n" in done.stdout and "cause:  exit (exit code 0)" in done.stdout


def test_example_of_forks_works():
    done = subprocess.run([box.BUILD / "example-fork-context"], capture_output=True, text=True)
    assert sorted(done.stdout.splitlines()) == ["branch 0: 45", "branch 1: 11"] and done.returncode == 0, done


def test_example_of_a_watched_context_works(tmp_path):
    done = subprocess.run([box.BUILD / "example-watch-context", tmp_path / "results"], capture_output=True, text=True)
    assert done.stdout.splitlines() == ["run 1 of 20: 50 % half, within its limits", "it died: signal, signal 9, peak known",
                                        "it was finished: table.csv"] and done.returncode == 0, done
    assert (tmp_path / "results" / "table.csv").read_text() == "1,2"


def test_example_is_about_thirty_lines():
    assert 20 <= len(EXAMPLE.read_text().splitlines()) <= 40


def test_installed_files(prefix):
    names = {path.name for path in prefix.rglob("*") if not path.is_dir()}
    assert {"cloche", "libcloche.so", "libcloche.a", "cloche.pc", "cloche.1", "cloche.h", "run.h", "spec.h", "result.h", "error.h"} <= names
    assert not any("weak" in name for name in names), "the test program is never installed"


def test_example_against_the_installed_shared_library(prefix, tmp_path, sanitizers):
    program = compile_program(EXAMPLE, tmp_path / "shared", *sanitizers, *pkg_config(prefix, "--cflags", "--libs", "cloche"))
    where = next(prefix.rglob("libcloche.so")).parent
    done = subprocess.run([program, "import os; print(os.getuid())"], capture_output=True, text=True,
                          env={**os.environ, "LD_LIBRARY_PATH": str(where)})
    assert done.returncode == 0 and "stdout: 1000\n" in done.stdout, done
    assert "libcloche.so.0" in subprocess.run(["ldd", program], capture_output=True, text=True).stdout


def test_example_against_the_installed_static_library(prefix, tmp_path, sanitizers):
    program = compile_program(EXAMPLE, tmp_path / "static", *sanitizers, *static_flags(prefix))
    done = subprocess.run([program], capture_output=True, text=True)
    assert done.returncode == 0 and "stdout: 42\n" in done.stdout, done
    assert "libcloche" not in subprocess.run(["ldd", program], capture_output=True, text=True).stdout


def test_only_the_public_names_are_exported(prefix):
    library = next(path for path in prefix.rglob("libcloche.so.0.*"))
    names = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True).stdout.split("\n")
    exported = {line.split()[-1].split("@")[0] for line in names if line.strip()}
    exported = {name for name in exported if not name.startswith(("__asan", "__ubsan", "__odr_asan", "__start", "__stop", "_init", "_fini"))}
    assert exported and all(name.startswith("cloche_") for name in exported), exported


def test_headers_stand_alone_and_in_cplusplus(prefix, tmp_path):
    include = next(path for path in prefix.rglob("cloche.h")).parent.parent
    for header in ("cloche", "context", "error", "pool", "result", "run", "spec"):
        source = tmp_path / f"{header}.c"
        source.write_text(f"#include <cloche/{header}.h>\n#include <cloche/{header}.h>\nint main(void) {{ return 0; }}\n")
        for compiler, standard in (("gcc", "-std=c99"), ("g++", "-std=c++11")):
            done = subprocess.run([compiler, standard, "-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only", "-I", include,
                                   *(("-x", "c++") if compiler == "g++" else ()), source], capture_output=True, text=True)
            assert done.returncode == 0, done.stderr


PROGRAM = r"""
#include <cloche/cloche.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void on_output(void *data, int stream, const char *bytes, size_t length)
{
    int *seen = data;
    seen[stream] += (int)length;
    (void)bytes;
}

static void *cancel(void *fd)
{
    usleep(400000);
    return write(*(int *)fd, "x", 1) == 1 ? NULL : fd;
}

static void *run_one(void *number)
{
    struct cloche_error err;
    struct cloche_spec *spec = cloche_spec_new();
    struct cloche_result *result = NULL;
    char code[64];
    snprintf(code, sizeof code, "import time; time.sleep(0.2); print(%d)", *(int *)number);
    cloche_spec_set(spec, "code", code, &err);
    if (cloche_run(spec, NULL, &result, &err) == 0 && atoi(cloche_result_stdout(result, NULL)) == *(int *)number)
        *(int *)number = -1;
    cloche_result_free(result);
    cloche_spec_free(spec);
    return NULL;
}

int main(void)
{
    struct cloche_error err;
    struct cloche_result *result = NULL;

    struct cloche_spec *spec = cloche_spec_new();
    printf("%d %s|", cloche_spec_set(spec, "memroy", "1G", &err) < 0, err.text);
    printf("%d %d %s|", cloche_spec_set(spec, "memory", "lots", &err) < 0, err.kind == CLOCHE_ERROR_SPEC, err.subject);
    printf("%d\n", cloche_spec_set(spec, "nothing", "1", NULL) < 0);
    cloche_spec_free(spec);
    cloche_spec_free(NULL);
    cloche_result_free(NULL);

    spec = cloche_spec_new();
    const char json[] = "{\"code\": \"import sys; print('out'); sys.stderr.write('errors'); open('f', 'w').write('123'); sys.exit(5)\"}";
    cloche_spec_read_json(spec, json, strlen(json), &err);
    int seen[3] = {0};
    struct cloche_options options = {.output = on_output, .data = seen};
    if (cloche_run(spec, &options, &result, &err) < 0)
        return printf("%s\n", err.text), 1;
    size_t length;
    cloche_result_stderr(result, &length);
    printf("%s %d %d %zu %d %d %zu %s %lld %d\n", cloche_result_cause(result), cloche_result_exit_code(result),
           cloche_result_signal(result), length, seen[1], seen[2], cloche_result_file_count(result),
           cloche_result_file_path(result, 0), (long long)cloche_result_file_size(result, 0),
           cloche_result_file_path(result, 9) == NULL && cloche_result_file_size(result, 9) == -1);
    char *text = cloche_result_to_json(result);
    printf("%d\n", strstr(text, "\"exit_code\":5") != NULL);
    free(text);
    cloche_result_free(result);
    cloche_spec_free(spec);

    int ends[2];
    pthread_t thread;
    if (pipe(ends) < 0 || pthread_create(&thread, NULL, cancel, &ends[1]) != 0)
        return 1;
    spec = cloche_spec_new();
    cloche_spec_set_code(spec, "import time\ntime.sleep(9)", 25, &err);
    struct cloche_options cancelling = {.cancel_fd = ends[0]};
    result = NULL;
    cloche_run(spec, &cancelling, &result, &err);
    printf("%s %d\n", result ? cloche_result_cause(result) : err.text, result ? cloche_result_signal(result) : 0);
    pthread_join(thread, NULL);
    cloche_result_free(result);
    cloche_spec_free(spec);

    spec = cloche_spec_new();
    cloche_spec_set(spec, "command", "cat", &err);
    FILE *input = tmpfile();
    fputs("from a descriptor", input);
    rewind(input);
    cloche_spec_set_stdin_fd(spec, fileno(input));
    result = NULL;
    cloche_run(spec, NULL, &result, &err);
    printf("%s\n", result ? cloche_result_stdout(result, NULL) : err.text);
    cloche_result_free(result);
    cloche_spec_free(spec);
    fclose(input);

    pthread_t threads[6];
    int numbers[6], good = 0;
    for (int i = 0; i < 6; i++) {
        numbers[i] = i + 10;
        pthread_create(&threads[i], NULL, run_one, &numbers[i]);
    }
    for (int i = 0; i < 6; i++) {
        pthread_join(threads[i], NULL);
        good += numbers[i] == -1;
    }
    printf("%d threads\n", good);
    struct cloche_options wrong = {.config_path = "/nowhere/cloche.conf"};
    spec = cloche_spec_new();
    cloche_spec_set(spec, "code", "1", &err);
    printf("%d %s\n", cloche_run(spec, &wrong, &result, &err) < 0, err.text);
    cloche_spec_free(spec);
    return 0;
}
"""


def test_everything_of_the_interface(prefix, tmp_path, sanitizers):
    (tmp_path / "program.c").write_text(PROGRAM)
    program = compile_program(tmp_path / "program.c", tmp_path / "program", "-D_GNU_SOURCE", *sanitizers, *static_flags(prefix))
    before = len(os.listdir("/proc/self/fd"))
    done = subprocess.run([program], capture_output=True, text=True, timeout=60)
    lines = done.stdout.splitlines()
    assert done.returncode == 0, done
    assert lines[0].startswith("1 ") and "memroy" in lines[0] and lines[0].endswith("|1 1 memory|1"), lines[0]
    assert lines[1] == "exit 5 0 6 4 6 1 f 3 1"
    assert lines[2] == "1"
    assert lines[3] == "cancelled 9"
    assert lines[4] == "from a descriptor"
    assert lines[5] == "6 threads"
    assert lines[6].startswith("1 ") and "/nowhere/cloche.conf" in lines[6]
    assert len(os.listdir("/proc/self/fd")) == before


def test_shared_library_leaves_nothing_open(prefix, tmp_path, sanitizers):
    """Fifty runs in one process: descriptors and children do not pile up."""
    (tmp_path / "many.c").write_text(r"""
#include <cloche/cloche.h>
#include <dirent.h>
#include <stdio.h>
#include <sys/wait.h>
static int descriptors(void) { int n = 0; DIR *d = opendir("/proc/self/fd"); while (readdir(d)) n++; closedir(d); return n; }
int main(void)
{
    int before = descriptors(), failed = 0;
    for (int i = 0; i < 50; i++) {
        struct cloche_error err;
        struct cloche_result *result = NULL;
        struct cloche_spec *spec = cloche_spec_new();
        cloche_spec_set(spec, "isolation", i % 2 ? "process" : "container", &err);
        cloche_spec_set(spec, "command", i % 5 ? "true" : "no-such-command", &err);
        failed += (cloche_run(spec, NULL, &result, &err) < 0) != (i % 5 == 0);
        cloche_result_free(result);
        cloche_spec_free(spec);
    }
    printf("%d %d %d\n", descriptors() - before, failed, waitpid(-1, NULL, WNOHANG));
    return 0;
}
""")
    program = compile_program(tmp_path / "many.c", tmp_path / "many", "-D_GNU_SOURCE", *sanitizers, *static_flags(prefix))
    assert subprocess.run([program], capture_output=True, text=True).stdout == "0 0 -1\n"
