"""Small images for the tests, in a store of their own: the host's bash, and its Python without packages.

    images = Images(tmp_path)
    images.make("blue", {"etc/color": "blue"})       # an image with python, and this file
    images.make("bare", python=False)                # one without
    images.config("warm = blue")                     # the path of a configuration with these lines
"""
import glob
import os
import pathlib
import re
import shutil
import subprocess

import box

PYTHON = pathlib.Path("/usr/bin/python3").resolve()
LIBRARY = pathlib.Path("/usr/lib") / PYTHON.name
LEFT_OUT = shutil.ignore_patterns("__pycache__", "test", "tests", "idlelib", "ensurepip", "lib2to3", "config-*", "turtledemo",
                                  "dist-packages", "site-packages", "tkinter")


def libraries_of(*programs):
    """The shared libraries that these load, as the loader finds them."""
    told = subprocess.run(["ldd", *map(str, programs)], capture_output=True, text=True).stdout
    return {path for path in re.findall(r"(/\S+)(?= \(0x)", told)}


def share(source, target):
    """The same file again: nobody writes to it."""
    try:
        os.link(os.path.realpath(source), target)
    except OSError:
        shutil.copy2(source, target)
    return target


class Images:
    def __init__(self, root):
        self.root, self.path = root, root / "store"
        self.path.mkdir()
        self.path.chmod(0o755)

    def config(self, *lines):
        path = self.root / "cloche.conf"
        path.write_text("\n".join([f"image_store = {self.path}", *lines]) + "\n")
        return path

    def make(self, name, files={}, python=True):
        """As a build does it: beside the others, and renamed when it is whole."""
        making = self.path / f".making-{name}"
        tree = making / "rootfs"
        programs = ["/bin/bash", "/bin/cat"]
        if python:
            programs += [PYTHON, *glob.glob(f"{LIBRARY}/lib-dynload/*.so")]
            shutil.copytree(LIBRARY, tree / str(LIBRARY).lstrip("/"), ignore=LEFT_OUT, copy_function=share, symlinks=False,
                            ignore_dangling_symlinks=True)
        for place in ("usr/bin", "usr/lib", "etc", "lib64"):
            (tree / place).mkdir(parents=True, exist_ok=True)
        (tree / "bin").symlink_to("usr/bin")
        (tree / "lib").symlink_to("usr/lib")
        for program in ("/bin/bash", "/bin/cat", *([PYTHON] if python else [])):
            share(program, tree / "usr/bin" / os.path.basename(program))
        if python:
            (tree / "usr/bin/python3").symlink_to(PYTHON.name)
        for library in libraries_of(*programs):
            place = tree / library.lstrip("/")
            place.parent.mkdir(parents=True, exist_ok=True)
            if not place.exists():
                share(library, place)
        for path, text in files.items():
            (tree / path).write_text(text)
        os.rename(making, self.path / name)

    def replace(self, name, by):
        """The image is another one, from one moment to the next: nobody sees that there was none."""
        os.rename(self.path / name, self.path / f".left-{name}")
        os.rename(self.path / by, self.path / name)

    def remove(self, name):
        done = box.raw("image", "remove", name, "--config", self.config())
        assert done.returncode == 0, done
