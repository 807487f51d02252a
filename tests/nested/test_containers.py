"""cloche inside an unprivileged container: `process` works and confines; `container` works, or says what is denied
and how to grant it; nothing ever confines less in silence."""
import itertools
import re

import pytest

import box
from boxes import HINTS, must_be_refused, must_be_sealed, must_confine, parse

FACTS = ["--read", "/facts", "--", "/facts", "/canary"]
STRICT = ("--cap-drop", "all", "--security-opt", "no-new-privileges")
OUTERS = {"podman": (), "podman-user": ("--user", "1000:1000"), "podman-strict": STRICT,
          "podman-strict-user": (*STRICT, "--user", "1000:1000"), "crun": {"user": 0}, "crun-user": {"user": 1000},
          "crun-one-abi": {"user": 1000, "one_abi": True}, "docker": {"user": 0, "as_docker": True}, "docker-user": {"user": 1000, "as_docker": True}}


@pytest.fixture(params=OUTERS)
def outer(request):
    """A function that runs a command in an outer container of this kind."""
    chosen = OUTERS[request.param]
    if request.param.startswith("podman"):
        podman = request.getfixturevalue("podman")
        return lambda *command, **options: podman.run(command, *chosen, **options)
    crun = request.getfixturevalue("crun")
    return lambda *command, **options: crun.run(command, **chosen, **options)


def cloche(outer, *arguments, engine="process", **options):
    return outer("/cloche", "run", "--json", "--isolation", engine, "--wall", "10s", *arguments, **options)


def script(outer, text):
    return outer("/bin/sh", "-c", text)


def test_outer_container_is_unprivileged(outer):
    """The control: it has a filter, cannot mount, and can read what the box must not."""
    done = script(outer, "grep -E '^Seccomp:' /proc/self/status; cat /canary; mount -t tmpfs x /tmp && echo mounted")
    assert b"Seccomp:\t2" in done.stdout
    assert b"canary-of-the-outer-container" in done.stdout
    assert b"mounted" not in done.stdout


def test_process_works_and_confines(outer):
    done = cloche(outer, *FACTS)
    result = parse(done)
    assert done.returncode == 0, result
    must_confine(result, "process")
    must_be_sealed(result)


def test_process_reads_what_is_granted_and_nothing_else(outer):
    code = "cat /canary; cat /home/somebody/private; cat /etc/passwd"
    refused = parse(cloche(outer, "--", "/bin/sh", "-c", code))
    assert refused["stdout"] == "", refused
    granted = parse(cloche(outer, "--read", "/canary", "--", "/bin/sh", "-c", code))
    assert granted["stdout"] == "canary-of-the-outer-container\n", granted


def test_process_runs_python_and_collects_files(outer):
    done = script(outer, "cd $(mktemp -d) && echo 'open(\"answer\", \"w\").write(str(6 * 7)); print(\"done\")' > code.py && "
                         "/cloche run --isolation process --output out code.py && cat out/answer")
    assert (done.returncode, done.stdout) == (0, b"done\n42"), done


def test_process_cannot_reach_the_other_processes(outer):
    """A process of the same user beside the box: not signalled, not stopped, not read, and it lives on."""
    attack = ("kill -9 $1; kill -19 $1; kill -9 -1; kill -9 -- -$1; cat /proc/$1/environ /proc/$1/maps /proc/$1/cmdline; "
              "echo still here")
    done = script(outer, f"SECRET=secret-of-the-neighbour sleep 100 & victim=$!\n"
                         f"/cloche run --isolation process --wall 5s -- /bin/sh -c '{attack}' sh $victim\n"
                         "kill -0 $victim && grep State /proc/$victim/status; kill $victim")
    assert b"secret-of-the-neighbour" not in done.stdout
    assert b"State:\tS" in done.stdout, f"the neighbour was reached: {done}"


def test_process_ends_what_forked_away(outer):
    attack = "(setsid sh -c \"sleep 98.7 & sleep 98.7\" &) ; echo forked"
    done = script(outer, f"/cloche run --isolation process --wall 2s -- /bin/sh -c '{attack}'; sleep 0.3; "
                         "for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline 2>/dev/null; echo; done | grep -c '^sleep 98.7'")
    assert done.stdout.split() == [b"forked", b"0"], done


def test_process_memory_is_watched(outer):
    done = cloche(outer, "--memory", "64M", "-e", "x = b'x' * (400 << 20)\nimport time; time.sleep(2); print('had it')")
    result = parse(done)
    assert result["cause"] == "memory", result
    assert "had it" not in result["stdout"]


def test_process_leaves_nothing(outer):
    done = script(outer, "/cloche run --isolation process -- /bin/true; /cloche run --isolation process --wall 200ms -- "
                         "/bin/sleep 9; find / -xdev -name 'box-*' 2>/dev/null; ls /proc | grep -c '^[0-9]'; true")
    assert b"box-" not in done.stdout, done


def test_doctor_tells_the_same(outer):
    """Its word on each engine is that of a run: exit 1 exactly when the default engine does not work."""
    doctor = outer("/cloche", "doctor")
    works = cloche(outer, "--", "/bin/true", engine="container").returncode == 0
    assert (doctor.returncode == 0) == works, doctor
    assert b"process" in doctor.stdout and b"seccomp" in doctor.stdout


def test_container_works_or_says_how(outer):
    done = cloche(outer, *FACTS, engine="container")
    if done.returncode == 0:
        must_confine(parse(done), "container")
        must_be_sealed(parse(done))
        return
    assert "--accept memory" in must_be_refused(done)
    done = cloche(outer, "--accept", "memory", "--accept", "cpus", *FACTS, engine="container")
    if done.returncode == 0:
        must_confine(parse(done), "container", ("memory", "cpus"))
        must_be_sealed(parse(done))
        return
    message = must_be_refused(done)
    # Exactly: what is denied, and the option of podman or docker that grants it.
    assert re.search(r"--(security-opt|cap-add|user|privileged)", message), message


@pytest.mark.parametrize("start", [(), ("--user", "1000:1000"), STRICT, (*STRICT, "--user", "1000:1000")],
                         ids=["root", "user", "strict", "strict-user"])
def test_following_the_messages_leads_to_a_container(podman, start):
    """Whatever a message recommends is done, to the letter, until it works."""
    outer_options, own_options, path = list(start), [], []
    for _ in range(8):
        done = podman.run(["/cloche", "run", "--json", "--isolation", "container", *own_options, *FACTS], *outer_options)
        if done.returncode == 0:
            accepted = own_options[1::2]
            must_confine(parse(done), "container", accepted)
            must_be_sealed(parse(done))
            return
        path.append((tuple(outer_options), tuple(own_options), parse(done).get("error")))
        try:
            message = must_be_refused(done)
        except AssertionError as error:
            raise AssertionError(f"{error}\n  on the way: {path}") from None
        before = (list(outer_options), list(own_options))
        for option, value in HINTS.findall(message):
            if option == "--accept":
                if value not in own_options:
                    own_options += [option, value]
            elif value == "systempaths=unconfined":
                continue  # docker's word for what podman calls unmask=ALL
            elif (option, value) not in itertools.pairwise(outer_options):
                outer_options += [option, value] if value else [option]
        assert (outer_options, own_options) != before, f"the messages lead nowhere: {path}"
    raise AssertionError(f"after {len(path)} steps it still does not work: {path}")


GRANTS = [(), ("--security-opt", "seccomp=unconfined"), ("--security-opt", "unmask=ALL"), ("--cap-add", "SYS_ADMIN"),
          ("--cap-add", "SYS_ADMIN", "--security-opt", "unmask=ALL"), ("--cap-add", "all"),
          ("--security-opt", "seccomp=unconfined", "--security-opt", "unmask=ALL"),
          ("--cap-add", "all", "--security-opt", "seccomp=unconfined", "--security-opt", "unmask=ALL"),
          ("--cap-drop", "SETUID"), ("--cap-drop", "SETPCAP"), ("--cap-drop", "CHOWN"), ("--cap-drop", "KILL"),
          ("--read-only",), ("--read-only", "--user", "1000:1000"), ("--pids-limit", "8"), ("--memory", "32m"),
          ("--privileged",), ("--privileged", "--user", "1000:1000")]


@pytest.mark.parametrize("grants", GRANTS, ids=lambda grants: "+".join(grants[1::2] or grants) or "default")
@pytest.mark.parametrize("engine", box.ENGINES)
def test_no_grant_of_the_outer_container_confines_less(podman, engine, grants):
    """Half of what is needed must not give half a box."""
    own = ["--accept", "memory", "--accept", "cpus"] if engine == "container" else []
    done = podman.run(["/cloche", "run", "--json", "--isolation", engine, *own, *FACTS], *grants)
    result = parse(done)
    if done.returncode == 0:
        must_confine(result, engine, ("memory", "cpus"))
        must_be_sealed(result)
    elif done.returncode == box.LAYER_MISSING:
        must_be_refused(done)
    else:
        assert done.returncode == box.HOST_FAILURE, result
        # Only where the outer container takes plain resources away is it the host that fails.
        assert grants[0] in ("--read-only", "--pids-limit", "--memory"), result
        assert result.get("error", {}).get("message") or result["cause"] == "host_failure"


def test_privileged_outer_container_has_all_layers(podman):
    """With everything granted the box is as on the host: own uid, groups, all namespaces."""
    done = podman.run(["/cloche", "run", "--json", "--isolation", "container", *FACTS], "--privileged")
    result = parse(done)
    assert done.returncode == 0, result
    must_confine(result, "container")
    layers = {layer["name"]: layer["active"] for layer in result["layers"]}
    assert layers["cgroup"] and layers["box_uid"]
