"""cloche image: list, import, run in it, remove; hostile archives are refused and leave nothing."""
import gzip
import hashlib
import io
import json
import os
import subprocess
import tarfile

import box
import pytest

TOOL = r"""
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "hello";
    if (strcmp(what, "hello") == 0)
        return puts("hello from the image") < 0;
    if (strcmp(what, "uid") == 0)
        return printf("%d %d\n", (int)getuid(), (int)getpid()) < 0;
    if (strcmp(what, "env") == 0)
        return puts(getenv(argv[2]) ? getenv(argv[2]) : "(none)") < 0;
    if (strcmp(what, "cat") == 0) {
        FILE *file = fopen(argv[2], "r");
        int byte;
        if (!file)
            return printf("errno %d\n", errno), 1;
        while ((byte = getc(file)) != EOF)
            putchar(byte);
        return 0;
    }
    if (strcmp(what, "ls") == 0) {
        DIR *dir = opendir(argv[2]);
        struct dirent *entry;
        if (!dir)
            return printf("errno %d\n", errno), 1;
        while ((entry = readdir(dir)))
            puts(entry->d_name);
        return 0;
    }
    if (strcmp(what, "write") == 0) {
        FILE *file = fopen(argv[2], "w");
        if (!file || fputs("written\n", file) < 0 || fclose(file) != 0)
            return printf("errno %d\n", errno), 1;
        return 0;
    }
    return 9;
}
"""


@pytest.fixture(scope="module")
def tool(tmp_path_factory):
    path = tmp_path_factory.mktemp("tool")
    (path / "tool.c").write_text(TOOL)
    subprocess.run(["gcc", "-static", "-Os", "-s", "-o", path / "tool", path / "tool.c"], check=True)
    return (path / "tool").read_bytes()


def entry(name, data=b"", mode=0o644, kind=tarfile.REGTYPE, link="", uid=0, device=(0, 0)):
    info = tarfile.TarInfo(name)
    info.size, info.mode, info.type, info.linkname, info.uid = len(data), mode, kind, link, uid
    info.devmajor, info.devminor = device
    return info, data


def directory(name, mode=0o755):
    return entry(name, mode=mode, kind=tarfile.DIRTYPE)


def tar_of(*entries):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for info, data in entries:
            tar.addfile(info, io.BytesIO(data))
    return stream.getvalue()


def docker_archive(*layers, environment=("FROM_IMAGE=yes",), **more):
    config = json.dumps({"architecture": "amd64", "os": "linux", "config": {"Env": list(environment), **more},
                         "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest() for layer in layers]}}).encode()
    manifest = [{"Config": "config.json", "RepoTags": ["test:latest"], "Layers": [f"{i}/layer.tar" for i in range(len(layers))]}]
    return tar_of(entry("config.json", config), entry("manifest.json", json.dumps(manifest).encode()),
                  *[entry(f"{i}/layer.tar", layer) for i, layer in enumerate(layers)])


def oci_archive(*layers, compress=gzip.compress, lie=False):
    blobs = {}

    def put(data):
        digest = hashlib.sha256(data).hexdigest()
        blobs[digest] = data
        return {"digest": "sha256:" + digest, "size": len(data)}

    kinds = [{"mediaType": "application/vnd.oci.image.layer.v1.tar+gzip", **put(compress(layer))} for layer in layers]
    if lie:  # the blob is not what its name says
        name = kinds[0]["digest"].split(":")[1]
        blobs[name] = compress(tar_of(entry("other", b"x")))
    config = json.dumps({"architecture": "amd64", "os": "linux", "config": {"Env": ["FROM_IMAGE=oci"]},
                         "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest() for layer in layers]}}).encode()
    manifest = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
                "config": {"mediaType": "application/vnd.oci.image.config.v1+json", **put(config)}, "layers": kinds}
    index = {"schemaVersion": 2, "manifests": [{"mediaType": manifest["mediaType"], **put(json.dumps(manifest).encode())}]}
    return tar_of(entry("oci-layout", b'{"imageLayoutVersion": "1.0.0"}'), entry("index.json", json.dumps(index).encode()),
                  *[entry(f"blobs/sha256/{digest}", data) for digest, data in blobs.items()])


class Store:
    def __init__(self, root):
        self.root, self.path = root, root / "store"
        self.config = root / "cloche.conf"
        self.config.write_text(f"image_store = {self.path}\n")

    def image(self, *args):
        return box.raw("image", *args, "--config", self.config)

    def add(self, name, data, *args):
        (self.root / f"{name}.tar").write_bytes(data)
        return self.image("import", self.root / f"{name}.tar", *args)

    def run(self, name, *command, args=()):
        return box.raw("run", "--config", self.config, "--image", name, *args, "--", *command)

    def names(self):
        return {line.split()[0] for line in self.image("list").stdout.decode().splitlines()[1:]}


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path)


@pytest.fixture
def base(tool):
    return tar_of(directory("bin"), entry("bin/tool", tool, 0o755), directory("etc"), entry("etc/passwd", b"evil:x:0:0::/:/bin/tool\n"),
                  entry("etc/issue", b"the image's own\n"), directory("usr"), directory("usr/bin"), directory("tmp", 0o1777),
                  entry("tmp/leftover", b"x"))


def test_list_has_the_host(store):
    done = store.image("list")
    assert done.returncode == 0 and store.names() == {"host"} and b"NAME" in done.stdout


def test_docker_archive_is_imported_and_run(store, base):
    done = store.add("small", docker_archive(base))
    assert done.returncode == 0 and b"small" in done.stdout, done
    assert store.names() == {"host", "small"}
    done = store.run("small", "/bin/tool")
    assert (done.returncode, done.stdout) == (0, b"hello from the image\n"), done


def test_oci_layout_is_imported_and_run(store, base):
    assert store.add("oci", oci_archive(base)).returncode == 0
    done = store.run("oci", "tool", "env", "FROM_IMAGE")
    assert (done.returncode, done.stdout) == (0, b"oci\n"), done


def test_image_runs_its_own_command_when_nothing_is_asked_for(store, base):
    assert store.add("app", docker_archive(base, Entrypoint=["/bin/tool"], Cmd=["ls", "."], WorkingDir="/etc")).returncode == 0
    done = box.raw("run", "--config", store.config, "--image", "app")
    assert done.returncode == 0 and b"issue" in done.stdout.split(), done
    assert b"issue" not in box.raw("run", "--config", store.config, "--image", "app", "--cwd", "/bin").stdout
    assert store.run("app", "/bin/tool").stdout == b"hello from the image\n"
    store.add("bare", docker_archive(base))
    done = box.raw("run", "--config", store.config, "--image", "bare")
    assert done.returncode == 250 and b"'bare' does not name a command of its own" in done.stderr, done
    done = box.raw("run", "--config", store.config, "--image", "app", "--vet", "block")
    assert done.returncode == 250 and b"cannot be read before it runs" in done.stderr, done


def test_compressed_archives_are_imported(store, base):
    assert store.add("zipped", gzip.compress(docker_archive(base))).returncode == 0
    assert store.run("zipped", "/bin/tool").stdout == b"hello from the image\n"
    packed = subprocess.run(["zstd", "-q", "-c"], input=docker_archive(base), capture_output=True) if os.path.exists("/usr/bin/zstd") else None
    if packed:
        assert store.add("zstd", packed.stdout).returncode == 0
        assert store.run("zstd", "/bin/tool").stdout == b"hello from the image\n"


def test_name_comes_from_the_file_or_the_option(store, base):
    (store.root / "python-3.12.tar.gz").write_bytes(gzip.compress(docker_archive(base)))
    assert store.image("import", store.root / "python-3.12.tar.gz").returncode == 0
    assert store.image("import", store.root / "python-3.12.tar.gz", "--name", "other").returncode == 0
    assert store.names() == {"host", "python-3.12", "other"}


def test_box_sees_the_image_and_nothing_of_the_host(store, base):
    store.add("small", docker_archive(base))
    assert set(store.run("small", "/bin/tool", "ls", "/").stdout.decode().split()) <= {
        ".", "..", "bin", "etc", "usr", "tmp", "proc", "sys", "dev", "run", "data", "code", "home"}
    assert store.run("small", "/bin/tool", "cat", "/etc/issue").stdout == b"the image's own\n"
    assert store.run("small", "/bin/tool", "cat", "/usr/bin/python3").returncode == 1
    assert b"leftover" not in store.run("small", "/bin/tool", "ls", "/tmp").stdout
    assert b"evil" not in store.run("small", "/bin/tool", "cat", "/etc/passwd").stdout
    assert store.run("small", "/bin/tool", "uid").stdout.split()[0] == b"1000"


def test_image_is_read_only(store, base):
    store.add("small", docker_archive(base))
    for path in ("/bin/new", "/etc/issue", "/new", "/bin/tool"):
        assert store.run("small", "/bin/tool", "write", path).returncode != 0, path
    assert store.run("small", "/bin/tool", "write", "/tmp/new").returncode == 0
    assert store.run("small", "/bin/tool", "cat", "/etc/issue").stdout == b"the image's own\n"


def test_layers_cover_and_remove(store, base):
    second = tar_of(entry("etc/.wh.issue"), entry("etc/new", b"second\n"), entry("etc/motd", b"b"))
    third = tar_of(entry("etc/motd", b"third\n"))
    assert store.add("layered", docker_archive(base, second, third)).returncode == 0
    assert store.run("layered", "/bin/tool", "cat", "/etc/issue").stdout == b"errno 2\n"
    assert store.run("layered", "/bin/tool", "cat", "/etc/new").stdout == b"second\n"
    assert store.run("layered", "/bin/tool", "cat", "/etc/motd").stdout == b"third\n"


def test_files_in_and_out_work_in_an_image(store, base):
    store.add("small", docker_archive(base))
    (store.root / "input.txt").write_text("from outside\n")
    done = store.run("small", "/bin/tool", "cat", "/data/input/input.txt", args=("--input", store.root / "input.txt"))
    assert done.stdout == b"from outside\n", done
    done = store.run("small", "/bin/tool", "write", "made", args=("--output", store.root / "out"))
    assert done.returncode == 0 and (store.root / "out" / "made").read_text() == "written\n"


def test_links_of_an_image_do_not_lead_to_the_host(store, tool):
    canary = store.root / "canary"
    canary.write_text("host secret\n")
    layer = tar_of(directory("bin"), entry("bin/tool", tool, 0o755), entry("up", kind=tarfile.SYMTYPE, link="../../../../../.." + str(canary)),
                   entry("absolute", kind=tarfile.SYMTYPE, link=str(canary)), entry("usr", kind=tarfile.SYMTYPE, link="/root"),
                   entry("etc", kind=tarfile.SYMTYPE, link="/"), entry("opt", kind=tarfile.SYMTYPE, link="../../../../../.."))
    done = store.add("links", docker_archive(layer))
    if done.returncode == 0:
        for path in ("/up", "/absolute", "/usr/.bashrc", "/etc/root/.bashrc", f"/opt{canary}"):
            done = store.run("links", "/bin/tool", "cat", path)
            assert b"host secret" not in done.stdout and done.returncode != 0, (path, done)
    assert canary.read_text() == "host secret\n"


def test_places_of_the_box_in_an_image_are_covered_even_if_they_are_links(store, tool):
    """data, tmp, home, proc, dev and code of the image lead to nothing: those places are ours."""
    layer = tar_of(directory("bin"), entry("bin/tool", tool, 0o755),
                   *[entry(name, kind=tarfile.SYMTYPE, link="/bin") for name in ("tmp", "data", "home", "proc", "dev", "code", "run", "sys")])
    assert store.add("links", docker_archive(layer)).returncode == 0
    assert store.run("links", "/bin/tool", "write", "/tmp/x").returncode == 0
    assert b"tool" not in store.run("links", "/bin/tool", "ls", "/tmp").stdout
    assert b"tool" not in store.run("links", "/bin/tool", "ls", "/data").stdout


def test_setuid_file_of_an_image_is_inert(store, tool):
    layer = tar_of(directory("bin"), entry("bin/tool", tool, 0o4755))
    store.add("setuid", docker_archive(layer))
    assert store.run("setuid", "/bin/tool", "uid").stdout.split()[0] == b"1000"


def test_language_that_an_image_lacks_says_how_to_get_it(store, base):
    store.add("small", docker_archive(base))
    done = box.raw("run", "--config", store.config, "--image", "small", "-e", "print(1)")
    assert done.returncode == box.BAD_SPEC
    for word in (b"small", b"python", b"install"):
        assert word in done.stderr


def test_image_needs_the_container_engine(store, base):
    store.add("small", docker_archive(base))
    done = box.raw("run", "--config", store.config, "--isolation", "process", "--image", "small", "--", "/bin/tool")
    assert done.returncode == box.BAD_SPEC and b"container" in done.stderr


def test_default_image_of_the_operator(store, base):
    store.add("small", docker_archive(base))
    store.config.write_text(store.config.read_text() + "image = small\n")
    assert box.raw("run", "--config", store.config, "--", "/bin/tool").stdout == b"hello from the image\n"
    assert box.raw("run", "--config", store.config, "--image", "host", "-e", "print(1)").stdout == b"1\n"


def test_unknown_image_is_refused(store):
    for name in ("nothing", "../host", "/", "", ".", "a/b", "x" * 100):
        done = box.raw("run", "--config", store.config, "--image", name, "-e", "print(1)")
        assert done.returncode == box.BAD_SPEC and done.stdout == b"" and b"image" in done.stderr, (name, done)


def test_name_that_is_taken_is_refused(store, base):
    assert store.add("small", docker_archive(base)).returncode == 0
    done = store.add("small", docker_archive(base))
    assert done.returncode == box.BAD_SPEC and b"already" in done.stderr and b"remove" in done.stderr
    for name in ("host", "../x", "a/b", ".hidden", "", "x" * 65):
        done = store.image("import", store.root / "small.tar", "--name", name)
        assert done.returncode == box.BAD_SPEC, name
    assert store.names() == {"host", "small"}


def test_remove(store, base):
    store.add("small", docker_archive(base))
    done = store.image("remove", "small")
    assert done.returncode == 0 and store.names() == {"host"} and os.listdir(store.path) == []
    done = store.image("remove", "small")
    assert done.returncode == box.BAD_SPEC and b"small" in done.stderr
    for name in ("host", "..", "../..", "/", ""):
        assert store.image("remove", name).returncode == box.BAD_SPEC
    assert store.image("remove").returncode == box.BAD_SPEC


GOOD = entry("bin/tool", b"#!/bin/false\n", 0o755)


def hostile_archives(escape):
    """Kinds of hostile archives; `escape` is a directory outside of the store that some try to write to."""
    up = "../" * 12
    link = lambda name, target, kind=tarfile.SYMTYPE: entry(name, kind=kind, link=target)
    manifest = lambda layer: entry("manifest.json", json.dumps([{"Config": "config.json", "Layers": [layer]}]).encode())
    return {
        "traversal": lambda: docker_archive(tar_of(GOOD, entry(f"{up}{escape}/escaped", b"x"))),
        "traversal inside": lambda: docker_archive(tar_of(GOOD, directory("a"), entry("a/../../escaped", b"x"))),
        "through a link": lambda: docker_archive(tar_of(GOOD, link("d", str(escape)), entry("d/escaped", b"x"))),
        "through a link in another layer": lambda: docker_archive(tar_of(GOOD, link("d", up + str(escape))), tar_of(entry("d/escaped", b"x"))),
        "whiteout through a link": lambda: docker_archive(tar_of(GOOD, link("d", str(escape))), tar_of(entry("d/.wh.precious"))),
        "whiteout of the parent": lambda: docker_archive(tar_of(GOOD), tar_of(entry(".wh..."))),
        "hard link out": lambda: docker_archive(tar_of(GOOD, link("h", f"{up}etc/shadow", tarfile.LNKTYPE))),
        "hard link by a link": lambda: docker_archive(tar_of(GOOD, link("s", "/etc"), link("h", "s/shadow", tarfile.LNKTYPE))),
        "block device": lambda: docker_archive(tar_of(GOOD, entry("disk", kind=tarfile.BLKTYPE, device=(254, 0)))),
        "character device": lambda: docker_archive(tar_of(GOOD, entry("mem", kind=tarfile.CHRTYPE, device=(1, 1)))),
        "member out of the archive": lambda: tar_of(entry(f"{up}{escape}/escaped", b"x"), entry("manifest.json", b"[]")),
        "layer path out": lambda: tar_of(entry("config.json", b"{}"), manifest(f"{up}etc/passwd")),
        "layer is a link": lambda: tar_of(entry("config.json", b"{}"), link("0/layer.tar", "/etc/passwd"), manifest("0/layer.tar")),
        "wrong digest": lambda: oci_archive(tar_of(GOOD), lie=True),
        "no manifest": lambda: tar_of(GOOD),
        "manifest is no JSON": lambda: tar_of(entry("manifest.json", b"{")),
        "empty": lambda: b"",
        "not an archive": lambda: b"MZ" + os.urandom(5000),
        "cut": lambda: docker_archive(tar_of(GOOD, entry("big", os.urandom(60000))))[:-40000],
        "bomb": lambda: oci_archive(tar_of(GOOD, entry("zeros", bytes(30 << 20)))),
    }


# They write nothing outside; whether they are refused or made harmless is theirs to decide.
HARMLESS = ("through a link", "through a link in another layer", "whiteout through a link", "hard link by a link", "whiteout of the parent")


@pytest.mark.parametrize("kind", hostile_archives("/x"))
def test_hostile_archive_is_refused_and_leaves_nothing(store, kind):
    escape = store.root / "outside"
    escape.mkdir()
    (escape / "precious").write_text("untouched")
    done = store.add("evil", hostile_archives(escape)[kind](), "--max-size", "20M")
    assert os.listdir(escape) == ["precious"] and (escape / "precious").read_text() == "untouched"
    assert not os.path.exists("/escaped") and not list(store.root.glob("escaped"))
    if kind in HARMLESS and done.returncode == 0:
        shadow = store.path / "evil" / "rootfs" / "h"
        assert not shadow.exists() or shadow.is_symlink()
        return
    assert done.returncode != 0 and done.stderr.strip(), done
    assert b"evil" in done.stderr or b"archive" in done.stderr or b"layer" in done.stderr
    assert store.names() == {"host"}
    left = os.listdir(store.path) if store.path.exists() else []
    assert left == [], left


def test_import_of_what_is_not_there_is_refused(store):
    done = store.image("import", store.root / "nothing.tar")
    assert done.returncode == box.BAD_SPEC and b"nothing.tar" in done.stderr
    assert store.image("import").returncode == box.BAD_SPEC
    done = store.image("import", store.root)
    assert done.returncode == box.BAD_SPEC and b"directory" in done.stderr


def test_progress_is_told(store, base):
    done = store.add("small", docker_archive(base))
    assert b"layer 1 of 1" in done.stderr


def test_box_in_an_image_has_all_layers(store, base):
    store.add("small", docker_archive(base))
    done = box.run("--config", store.config, "--image", "small", "--", "/bin/tool")
    assert all(layer["active"] or layer["name"] == "apparmor" for layer in done.layers)
    assert "small" in next(layer["detail"] for layer in done.layers if layer["name"] == "root")
