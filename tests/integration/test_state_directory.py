"""The state directory: one that is not there yet, another one than somebody else's, and programs beside ours."""
import json
import os
import pathlib
import shutil
import subprocess
import time

import box
import pytest

OTHER_STATE = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /run && exec "$@"', "sh"]


def test_reaper_of_another_state_directory_takes_no_living_box(engine):
    """As that of a service with a /run of its own: it sees the same groups, users and directories, and no record."""
    code = "import time; print('begun', flush=True); time.sleep(3); print('done')"
    run = subprocess.Popen([*OTHER_STATE, box.CLOCHE, "run", "--json", "--isolation", engine, "-e", code], stdout=subprocess.PIPE, text=True)
    time.sleep(1.5)
    assert box.raw("reap").returncode == 0
    told = json.loads(run.communicate(timeout=30)[0])
    assert (told["cause"], told["stdout"]) == ("exit", "begun\ndone\n"), told


def test_nobody_else_can_hold_the_group_of_a_box(engine):
    """Who could, would keep its leftovers from being reaped, and its next owner from having it."""
    run = subprocess.Popen([box.CLOCHE, "run", "--isolation", engine, "--", "/bin/sleep", "2"])
    try:
        deadline, groups = time.monotonic() + 2, []
        while time.monotonic() < deadline and not groups:
            groups = [path for path in pathlib.Path("/sys/fs/cgroup").glob("**/cloche/box-0-*") if path.is_dir()]
        assert groups
        for group in groups:
            held = subprocess.run(["setpriv", "--reuid=54321", "--regid=54321", "--clear-groups", "flock", "--nonblock", group, "true"],
                                  capture_output=True, text=True)
            assert held.returncode != 0 and ("Permission denied" in held.stderr or not group.exists()), held
    finally:
        run.wait()


def test_keeper_makes_the_state_directory():
    """After a start of the machine nobody has made it yet."""
    without = {name: value for name, value in os.environ.items() if name != "CLOCHE_KEEPER"}
    keeper = subprocess.Popen([*OTHER_STATE, box.CLOCHE, "keep", "--spares", "1", "--preload", "json"], stderr=subprocess.PIPE, text=True, env=without)
    try:
        time.sleep(1)
        assert keeper.poll() is None, keeper.communicate()
    finally:
        keeper.terminate()
        keeper.communicate(timeout=30)


@pytest.mark.parametrize("owner, mode, is_fit", [(0, 0o755, True), (54321, 0o755, False), (0, 0o757, False)])
def test_program_beside_is_not_started_if_anybody_could_have_put_it_there(tmp_path, owner, mode, is_fit):
    tmp_path.chmod(0o755)
    shutil.copy(box.CLOCHE, tmp_path / "cloche")
    planted = tmp_path / "cloche-full"
    shutil.copy("/usr/bin/echo", planted)
    os.chown(planted, owner, owner)
    planted.chmod(mode)
    done = subprocess.run([tmp_path / "cloche", "doctor"], capture_output=True, text=True)
    assert (done.stdout == "doctor\n") == is_fit, done
    if not is_fit:
        assert "cloche-full" in done.stderr and "another user" in done.stderr and done.returncode == 252, done
