"""cloche doctor: which layers work here, proved from inside."""
import json
import os

import box
import pytest


@pytest.fixture(scope="module")
def findings():
    done = box.raw("doctor", "--json")
    assert done.returncode == 0, done
    return json.loads(done.stdout)


def test_everything_works_here():
    done = box.raw("doctor")
    assert done.returncode == 0 and b"MISSING" not in done.stdout
    for word in (b"container (default)", b"process", b"seccomp", b"landlock", b"note"):
        assert word in done.stdout


def test_json_form(findings):
    assert findings["default"] == "container" and findings["works"] is True
    assert isinstance(findings["landlock_abi"], int) and findings["landlock_abi"] > 0
    assert {engine["engine"] for engine in findings["engines"]} == {*box.ALL_ENGINES, "wasm"}
    for engine in findings["engines"]:
        assert engine["works"] is True and len(engine["cannot_promise"]) >= 2
        for layer in engine["layers"]:
            assert layer["name"] and layer["detail"] and layer["purpose"]


def test_every_layer_is_active_but_apparmor(findings):
    for engine in findings["engines"]:
        for layer in engine["layers"]:
            assert layer["active"] or layer["name"] == "apparmor", (engine["engine"], layer)


def test_layers_are_those_of_a_run(findings, engine):
    found = next(item for item in findings["engines"] if item["engine"] == engine)
    assert [layer["name"] for layer in found["layers"]] == [layer["name"] for layer in box.python("1", engine=engine).layers]


def test_process_engine_says_what_it_cannot_promise(findings):
    text = " ".join(next(item for item in findings["engines"] if item["engine"] == "process")["cannot_promise"])
    for word in ("memory", "pid", "stat", "Disk", "cpus"):
        assert word in text


@pytest.mark.parametrize("step, layer", [
    ("seccomp", "seccomp"), ("no_new_privs", ""), ("landlock", "landlock"),
    ("rlimits", "rlimits"), ("pid_namespace", "namespace"), ("network_namespace", "namespace"), ("ipc_namespace", "namespace"),
    ("uts_namespace", "namespace"), ("user_namespace", "namespace"), ("cgroup_memory", "cgroup"), ("cgroup_pids", "cgroup"),
    ("cgroup_cpu", "cgroup"), ("proc_mask", "proc"), ("root_read_only", "root"), ("scratch_size", "scratch"), ("mount_nosuid", "nosuid"),
    ("bounding_set", "bounding"), ("box_uid", "user namespace"), ("landlock_scope", "scope")])
def test_missing_layer_is_named_and_exits_1(step, layer):
    done = box.raw("doctor", "--json", weaken=step, verify=True)
    found = json.loads(done.stdout)
    assert done.returncode == 1 and found["works"] is False, (step, found)
    container = next(item for item in found["engines"] if item["engine"] == "container")
    assert container["works"] is False
    assert layer in container["missing"]["layer"] + container["missing"]["reason"], container["missing"]


def test_descriptor_that_is_left_open_is_named():
    """The program was started with one more descriptor, and the step that closes it is removed."""
    read, write = os.pipe()
    try:
        high = os.dup2(write, 200)
        done = box.raw("doctor", "--json", weaken="close_descriptors", verify=True, pass_fds=[high])
        assert done.returncode == 1
        container = next(item for item in json.loads(done.stdout)["engines"] if item["engine"] == "container")
        assert "descriptor" in container["missing"]["reason"], container
        assert box.raw("doctor", pass_fds=[high]).returncode == 0
    finally:
        for fd in (read, write, high):
            os.close(fd)


def test_missing_layer_in_words():
    done = box.raw("doctor", weaken="seccomp", verify=True)
    assert done.returncode == 1 and b"MISSING" in done.stdout and b"seccomp" in done.stdout and b"does not work" in done.stdout


def test_missing_layer_refuses_runs_and_nothing_of_the_code_runs(engine):
    for step in ("seccomp", "no_new_privs", "landlock"):
        done = box.raw("run", "--isolation", engine, "-e", "print('ran')", weaken=step, verify=True)
        assert done.returncode == box.LAYER_MISSING and b"ran" not in done.stdout and done.stderr, (step, done)


def test_default_engine_of_the_operator_decides(config):
    path = config("isolation = process")
    done = box.raw("doctor", "--json", "--config", path)
    assert done.returncode == 0 and json.loads(done.stdout)["default"] == "process"
    done = box.raw("doctor", "--json", "--config", path, weaken="cgroup_pids", verify=True)
    assert done.returncode == 0, "the process engine does not need this group"


def test_wrong_configuration_is_refused(config):
    done = box.raw("doctor", "--config", config("memory = lots"))
    assert done.returncode == box.BAD_SPEC and b"lots" in done.stderr


def test_shipped_program_has_no_door_for_weakening():
    done = box.raw("doctor", env={"CLOCHE_WEAKEN": "seccomp", "CLOCHE_WEAKEN_VERIFY": "1"})
    assert done.returncode == 0
    assert b"CLOCHE_WEAKEN" not in box.CLOCHE.read_bytes()


def test_doctor_leaves_nothing(engine):
    before = box.census()["mounts"]
    box.raw("doctor")
    assert box.census()["mounts"] == before
