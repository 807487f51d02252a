"""podman and docker, on a small image made from the host's own interpreter.

The image is the same python3 as the native row, its standard library and the
shared libraries it names: no download, and the same bytes under test.  The tar is
cached by a hash of what goes into it.
"""

import functools
import hashlib
import os
import re
import subprocess
import tarfile
import tempfile
import time
from pathlib import Path

import measure
from contenders import PROGRAM, PYTHON, merged_links
from stage import find_program, first_line

RECIPE = "1"  # changes when the code below would make another image from the same files
IMAGE = "cloche-bench:1"
SKIPPED_DIRECTORIES = {
    "test", "tests", "idlelib", "tkinter", "ensurepip", "lib2to3", "turtledemo",
    "dist-packages", "site-packages",
}  # fmt: skip
EMPTY_DIRECTORIES = ("proc", "sys", "dev", "tmp", "etc", "run")
DAEMON_START_TIMEOUT_S = 30.0
# What both engines are asked for; the rest is their default.
RUN_OPTIONS = [
    "run", "--rm", "--pull", "never", "--network", "none", "--read-only", "--tmpfs", "/tmp",
    "--cgroupns", "private", "--cap-drop", "all", "--security-opt", "no-new-privileges",
    "--memory", "512m", "--memory-swap", "512m", "--pids-limit", "64",
]  # fmt: skip


def ask_python(expression):
    done = subprocess.run(
        [PYTHON, "-I", "-c", f"import os, sys, sysconfig; print({expression})"],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def library_files(binary):
    """The shared libraries that a program is linked with, by ldd."""
    done = subprocess.run(["ldd", binary], capture_output=True, text=True, check=False)
    return re.findall(r"(/\S+) \(0x", done.stdout)


def in_merged_tree(path):
    """The path with links in its directory resolved: /lib64/x becomes /usr/lib64/x."""
    return os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))


def image_files():
    """All regular files of the image, as sorted paths that are the same inside."""
    interpreter = os.path.realpath(PYTHON)
    library = ask_python("sysconfig.get_path('stdlib')")
    files = {interpreter, *map(in_merged_tree, library_files(interpreter))}
    for directory, names, found in os.walk(library):
        names[:] = [
            name
            for name in names
            if name not in SKIPPED_DIRECTORIES and not name.startswith("config-")
        ]
        files.update(os.path.join(directory, name) for name in found)
    for extension in [path for path in files if path.endswith(".so")]:
        files.update(map(in_merged_tree, library_files(extension)))
    locale = Path("/usr/lib/locale/C.utf8")
    files.update(str(path) for path in locale.rglob("*") if path.is_file())
    return sorted(path for path in files if os.path.isfile(path))


def cache_directory():
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    path = Path(base, "cloche", "bench")
    path.mkdir(parents=True, exist_ok=True)
    return path


def write_image(path, files):
    # dereference: a link out of the tree (sitecustomize.py) becomes a file.
    with tarfile.open(path, "w", dereference=True) as tar:
        for name in EMPTY_DIRECTORIES:
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(entry)
        links = {**merged_links(), PYTHON.lstrip("/"): os.path.realpath(PYTHON)}
        for name, target in links.items():
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            tar.addfile(entry)
        for name in files:
            tar.add(name, arcname=name.lstrip("/"), recursive=False)


@functools.lru_cache(maxsize=None)
def image_tar():
    """The path of the image, made when the cache has none of this content; an older
    interpreter's image is then of no use to anybody."""
    files = image_files()
    digest = hashlib.sha256(RECIPE.encode())
    for name in files:
        state = os.stat(name)
        digest.update(f"{name}\0{state.st_size}\0{state.st_mtime_ns}\n".encode())
    path = cache_directory() / f"python-image-{digest.hexdigest()[:16]}.tar"
    if not path.exists():
        descriptor, unfinished = tempfile.mkstemp(dir=path.parent, prefix=".image-")
        os.close(descriptor)
        try:
            write_image(unfinished, files)
            os.replace(unfinished, path)
            for old in path.parent.glob("python-image-*.tar"):
                if old != path:
                    old.unlink(missing_ok=True)
        finally:
            Path(unfinished).unlink(missing_ok=True)
    return path


def import_image(stage, client):
    """Feed the tar through stdin: the peers' namespace may not see the cache."""
    with open(image_tar(), "rb") as tar, measure.inside(stage.namespace()):
        done = subprocess.run(
            [*client, "import", "-", IMAGE],
            stdin=tar,
            capture_output=True,
            text=True,
            timeout=300,
            env=measure.clean_environment(),
            check=False,
        )
    if done.returncode != 0:
        said = done.stderr.strip().splitlines() or ["no message"]
        raise measure.Missing(f"the image could not be imported: {said[-1]}")


def engine_contender(stage, key, label, client, options, version, note):
    command = [*client, *RUN_OPTIONS, *options, IMAGE, PYTHON, "-c", PROGRAM]
    return measure.Contender(
        key,
        label,
        lambda number: command,
        slow=True,
        version=version,
        namespace=stage.namespace(),
        note=note,
    )


def engine_version(stage, *programs):
    """The versions of all programs that take part in one start."""
    return ", ".join(
        first_line(program, "--version", namespace=stage.namespace()) for program in programs
    )


def podman(stage):
    program = find_program("podman")
    stage.namespace()  # says first if root is what is missing
    reasons = []
    for runtime in ("crun", "runc"):
        place = stage.make_directory(f"podman-{runtime}")
        try:
            client = [
                program, "--root", f"{place}/root", "--runroot", f"{place}/run",
                "--tmpdir", f"{place}/tmp", "--cgroup-manager", "cgroupfs",
                "--events-backend", "file", "--runtime", find_program(runtime),
            ]  # fmt: skip
            import_image(stage, client)
        except measure.Missing as reason:
            reasons.append(str(reason))
            continue
        options = [
            "--cgroup-parent", f"/{stage.cgroup_name}",
            # Its defaults are above the hard limits of a machine that lacks
            # CAP_SYS_RESOURCE, and then the start is refused.
            "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024",
        ]  # fmt: skip
        contender = engine_contender(
            stage, "podman", "podman run", client, options,
            engine_version(stage, program, find_program(runtime)),
            f"{runtime} underneath, image, no network; no user namespace (its default as root)",
        )  # fmt: skip
        measure.warm_up(contender, stage.keep(), times=1)
        if not contender.missing:
            return contender
        reasons.append(f"with {runtime} {contender.missing}")
    raise measure.Missing("; ".join(reasons))


def wait_for_docker(client, daemon, log_path):
    deadline = time.monotonic() + DAEMON_START_TIMEOUT_S
    while time.monotonic() < deadline:
        ask = [*client, "info", "--format", "{{.Driver}}"]
        answer = subprocess.run(ask, capture_output=True, text=True, check=False)
        if answer.returncode == 0 and answer.stdout.strip():
            return answer.stdout.strip()
        if daemon.poll() is not None:
            break
        time.sleep(0.1)
    lines = Path(log_path).read_text(errors="replace").strip().splitlines() or ["no message"]
    raise measure.Missing(f"dockerd did not start: {lines[-1][:300]}")


@functools.lru_cache(maxsize=None)
def docker_daemon(stage):
    """Its client's command line, its version and its storage driver; the daemon is started once."""
    client_program, daemon_program = find_program("docker"), find_program("dockerd")
    place = stage.make_directory("docker")
    socket = f"unix://{place}/socket"
    log_path = place / "log"
    daemon = stage.start_daemon(
        [
            daemon_program, "--data-root", f"{place}/data", "--exec-root", f"{place}/exec",
            "--pidfile", f"{place}/pid", "--host", socket, "--bridge", "none",
            "--iptables=false", "--ip6tables=false", "--cgroup-parent", f"/{stage.cgroup_name}",
        ],
        log_path,
        stage.namespace(),
    )  # fmt: skip
    client = [client_program, "--config", f"{place}/config", "--host", socket]
    driver = wait_for_docker(client, daemon, log_path)
    import_image(stage, client)
    return client, engine_version(stage, daemon_program, find_program("runc")), driver


def docker(stage):
    client, version, driver = docker_daemon(stage)
    note = (
        f"daemon already up, runc underneath, image on {driver}, no network; "
        "no user namespace (its default)"
    )
    return engine_contender(stage, "docker", "docker run", client, [], version, note)


def docker_exec(stage):
    """A new process in a container that runs already: no fresh box, the least that docker can be asked for."""
    client, version, driver = docker_daemon(stage)
    name = f"cloche-bench-{os.getpid()}"
    options = [option for option in RUN_OPTIONS if option != "--rm"]
    with measure.inside(stage.namespace()):
        done = subprocess.run(
            [*client, *options, "--detach", "--name", name, IMAGE, PYTHON, "-c", "import time; time.sleep(86400)"],
            capture_output=True, text=True, timeout=60, env=measure.clean_environment(), check=False,
        )  # fmt: skip
    if done.returncode != 0:
        raise measure.Missing(f"no container to go into: {done.stderr.strip()[-200:]}")
    return measure.Contender(
        "docker-exec", "docker exec", lambda number: [*client, "exec", name, PYTHON, "-c", PROGRAM], slow=True,
        version=version, namespace=stage.namespace(),
        note="a new interpreter in a container that is up: no fresh box",
    )  # fmt: skip
