"""What `cloche run --json` and `cloche doctor` say about the layers on this kernel."""
import json

import box
from checks import role, test

ACCEPTED = ("--accept", "memory", "--accept", "cpus")
# name → (active, what the detail must hold); None: not listed by this engine
EXPECTED = {
    "container": {
        "namespaces": (True, "user pid mount net ipc uts cgroup time"),
        "root": (True, "read-only host"),
        "capabilities": (True, "none"),
        "no_new_privs": (True, "on"),
        "seccomp": (True, "container"),
        "landlock": (True, "abi 2"),
        "landlock_scope": (False, "not in this kernel"),
        "rlimits": (True, "on"),
    },
    "process": {
        "capabilities": (True, "none"),
        "no_new_privs": (True, "on"),
        "landlock": (True, "abi 2"),
        "landlock_scope": (False, "not in this kernel"),
        "rlimits": (True, "on"),
    },
}


def expected(engine):
    profiled = role() != "root"
    wanted = dict(EXPECTED[engine])
    has_group = role() != "session"
    wanted["box_uid"] = (True, "own uid") if role() in ("root", "profile") else (False, "the caller's uid")
    if engine == "container":
        wanted["cgroup"] = (True, "v2: memory pids cpu") if has_group else (False, "no delegated cgroup v2 subtree")
        wanted["apparmor"] = (profiled, "cloche-box" if profiled else "not active here")
    else:
        if has_group:
            wanted["cgroup"] = (True, "v2: memory")
        wanted["watchdog"] = (True, "every 10 ms: pids cpu disk" if has_group else "every 10 ms: memory pids cpu disk")
        wanted["seccomp"] = (True, "shared uid" if role() in ("user", "session") else "process")
    if role() in ("user", "session") and engine == "container":
        wanted["namespaces"] = (True, "(rootless)")
    return wanted


def assert_layers(engine, layers):
    seen = {layer["name"]: (layer["active"], layer["detail"]) for layer in layers}
    for name, (active, detail) in expected(engine).items():
        assert name in seen, (name, seen)
        assert seen[name][0] is active and detail in seen[name][1], (name, seen[name], (active, detail))


@test("root", "profile", "user", "session")
def run_lists_the_layers(engine):
    accepted = ACCEPTED if role() == "session" and engine == "container" else ()
    assert_layers(engine, box.run(*accepted, "--", "true", engine=engine).layers)


@test("root", "profile", "user", engines=None)
def doctor_is_content():
    done = box.raw("doctor", "--json")
    told = json.loads(done.stdout)
    assert done.returncode == 0 and told["works"] and told["landlock_abi"] == 2, done
    for finding in told["engines"]:
        if finding["engine"] in ("wasm", "gvisor"):  # their runtimes are not in this machine: that is said, and is no fault
            assert not finding["works"] and finding["missing"]["reason"], finding
            continue
        assert finding["works"], finding
        assert_layers(finding["engine"], finding["layers"])


@test("session", engines=None)
def doctor_says_what_is_missing_and_fails():
    done = box.raw("doctor")
    text = done.stdout.decode()
    assert done.returncode == 1 and "MISSING cgroup" in text and "systemd-run --user --scope -p Delegate=yes" in text, done
    assert "process" in text and "watchdog" in text, text  # the other engine works
