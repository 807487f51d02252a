#!/usr/bin/env python3
"""Writes the seeds of oci_import_fuzz: small image archives, good and hostile, one per thing that the importer does.

usage: make_oci_corpus.py [DIRECTORY]      (default: corpus/oci_import beside this file)
"""

import gzip
import hashlib
import io
import json
import pathlib
import sys
import tarfile

TIME = 1234567890
MACHINE = "amd64"


def tar(*entries, format=tarfile.USTAR_FORMAT):
    """A tar of (name, content or dict of TarInfo attributes) pairs, without the zeros at its end."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=format) as archive:
        for name, what in entries:
            info = tarfile.TarInfo(name)
            info.mtime = TIME
            data = b""
            if isinstance(what, dict):
                for key, value in what.items():
                    if key == "data":
                        data = value
                    else:
                        setattr(info, key, value)
            else:
                data = what
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
        end = out.tell()
    return out.getvalue()[:end]


def directory(mode=0o755):
    return {"type": tarfile.DIRTYPE, "mode": mode}


def symlink(target):
    return {"type": tarfile.SYMTYPE, "linkname": target}


def hardlink(target):
    return {"type": tarfile.LNKTYPE, "linkname": target}


def device(major, minor, type=tarfile.CHRTYPE):
    return {"type": type, "devmajor": major, "devminor": minor}


CONFIG = json.dumps(
    {"os": "linux", "architecture": MACHINE, "config": {"Env": ["PATH=/bin"], "Cmd": ["/bin/sh"]}}
).encode()


def compact(value):
    return json.dumps(value, separators=(",", ":")).encode()


def docker(*layers):
    names = [f"{number}/layer.tar" for number in range(len(layers))]
    manifest = [{"Config": "c.json", "RepoTags": ["seed:1"], "Layers": names}]
    return tar(("manifest.json", compact(manifest)), ("c.json", CONFIG), *zip(names, layers))


def oci(*layers):
    blobs = {}

    def blob(data, **more):
        digest = hashlib.sha256(data).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = data
        return {"digest": f"sha256:{digest}", "size": len(data), **more}

    manifest = compact({"schemaVersion": 2, "config": blob(CONFIG), "layers": [blob(layer) for layer in layers]})
    index = {"manifests": [blob(manifest, platform={"os": "linux", "architecture": MACHINE})]}
    return tar(("index.json", compact(index)), *blobs.items())


PLAIN = tar(("bin/sh", {"data": b"a shell", "mode": 0o4755}), ("etc/", directory()))
SMALL = tar(("tmp/", directory(0o1777)))


def seeds():
    yield "docker", docker(PLAIN)
    yield "docker-gzip", gzip.compress(docker(PLAIN), mtime=0)
    # A zstd frame with one raw block, so that no module beyond the standard library is needed.
    yield "docker-zstd-layer", docker(
        b"\x28\xb5\x2f\xfd\x00\x58" + ((len(SMALL) << 3) | 1).to_bytes(3, "little") + SMALL
    )
    yield "oci", oci(gzip.compress(SMALL, mtime=0))
    yield "links", docker(
        tar(("usr/bin/", directory()), ("bin", symlink("usr/bin")), ("bin/tool", b""), ("hard", hardlink("bin/tool")))
    )
    yield "whiteouts", docker(
        tar(("d/old", b""), ("e/old", b""), ("g", b"")),
        tar(("d/.wh..wh..opq", b""), ("d/new", b""), ("g", device(0, 0)), ("e/.wh.old", b"")),
    )
    yield "escape-link", docker(tar(("l", symlink("../../../..")), ("l/x", b"y"), ("l/.wh.canary", b"")))
    yield "escape-hardlink", docker(tar(("l", hardlink("../../../canary"))))
    yield "replace", docker(
        tar(("a/b/c", b""), ("d", b""), ("e", symlink("a"))), tar(("a", b""), ("d/", directory()), ("e/", directory(0)))
    )
    yield "pax", docker(
        tar(("gr\u00fc\u00df", {"data": b"x", "pax_headers": {"SCHILY.xattr.user.x": "y"}}), format=tarfile.PAX_FORMAT)
    )
    yield "gnu-long", docker(tar(("l", symlink("t" * 150)), format=tarfile.GNU_FORMAT))
    yield "member-links", tar(
        ("manifest.json", compact([{"Config": "c.json", "Layers": ["a/layer.tar", "b/layer.tar"]}])),
        ("c.json", b"{}"), ("a/layer.tar", symlink("../b/layer.tar")), ("b/layer.tar", SMALL),
    )


def main():
    here = pathlib.Path(__file__).resolve().parent
    into = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else here / "corpus" / "oci_import"
    into.mkdir(parents=True, exist_ok=True)
    for name, data in seeds():
        (into / name).write_bytes(data)


if __name__ == "__main__":
    main()
