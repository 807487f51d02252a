"""Files that are granted, and their owners, on the file systems of a stock machine."""
import os
import pathlib
import tempfile

import box
from checks import role, test

ORDINARY = 1000


def folder(owner=None):
    path = pathlib.Path(tempfile.mkdtemp(dir="/var/tmp", prefix="cloche-files-"))
    (path / "data.txt").write_text("data\n")
    if owner is not None:
        for one in (path, path / "data.txt"):
            os.chown(one, owner, owner)
    return path


@test("root", "user")
def input_is_read_and_output_collected(engine):
    given, out = folder(), folder() / "out"
    os.chmod(given / "data.txt", 0o600)
    code = "import os; t = open(os.environ['CLOCHE_INPUT'] + '/data.txt').read(); open('copy.txt', 'w').write(t * 2)"
    result = box.python(code, "--input", given / "data.txt", "--output", out, engine=engine)
    assert result.exit_code == 0 and [file["path"] for file in result.files] == ["copy.txt"], result
    assert (out / "copy.txt").read_text() == "data\ndata\n"


@test("root", "user")
def input_is_not_written(engine):
    """Also not by the ways that Landlock knows only since ABI 3."""
    given = folder()
    code = ("import os\npath = os.environ['CLOCHE_INPUT'] + '/data.txt'\nfor flags in (os.O_WRONLY, os.O_RDWR, os.O_TRUNC, os.O_WRONLY | os.O_TRUNC, 3, 3 | os.O_TRUNC):\n"
            "  try: os.close(os.open(path, flags)); print('opened', flags)\n  except OSError: pass\n"
            "for change in (lambda: os.truncate(path, 0), lambda: os.chmod(path, 0o666), lambda: os.utime(path, (1, 1)), lambda: os.unlink(path)):\n"
            "  try: change(); print('changed')\n  except OSError: pass")
    before = (given / "data.txt").stat()
    result = box.python(code, "--input", given / "data.txt", engine=engine)
    after = (given / "data.txt").stat()
    assert (given / "data.txt").read_text() == "data\n", result
    assert (before.st_mode, before.st_mtime_ns) == (after.st_mode, after.st_mtime_ns), result
    assert "changed" not in result.stdout, result


@test("root", "user", engines=("container",))
def written_files_belong_to_the_owner_of_the_folder(engine):
    """Root's boxes have a uid of their own: a mapped mount stands between (ext4)."""
    for owner in (0, ORDINARY) if role() == "root" else (ORDINARY,):
        shared = folder(owner if role() == "root" else None)
        os.chmod(shared, 0o700)
        command = f"cat {shared}/data.txt; echo new >{shared}/new.txt; echo more >>{shared}/data.txt"
        result = box.run("--write", shared, "--", "bash", "-c", command, engine=engine)
        assert (result.stdout, result.exit_code) == ("data\n", 0), result
        assert (shared / "new.txt").read_text() == "new\n" and (shared / "new.txt").stat().st_uid == owner
        assert (shared / "data.txt").read_text() == "data\nmore\n"


@test("root", "user", engines=("container",))
def read_grant_is_not_written(engine):
    shared = folder()
    os.chmod(shared / "data.txt", 0o666)
    result = box.run("--read", shared, "--", "bash", "-c", f"echo x >{shared}/data.txt; : >{shared}/new; cat {shared}/data.txt", engine=engine)
    assert result.stdout == "data\n" and sorted(os.listdir(shared)) == ["data.txt"], result


@test("user", engines=("process",))
def write_grant_works_with_the_callers_uid(engine):
    shared = folder()
    result = box.run("--write", shared, "--", "bash", "-c", f"echo new >{shared}/new.txt; mv {shared}/data.txt {shared}/moved", engine=engine)
    assert result.exit_code == 0 and sorted(os.listdir(shared)) == ["moved", "new.txt"], result


@test("root", engines=("process",))
def write_grant_for_a_uid_of_its_own_is_refused(engine):
    done = box.raw("run", "--isolation", engine, "--write", folder(), "--", "true")
    assert done.returncode == box.LAYER_MISSING and b"--isolation container" in done.stderr, done
