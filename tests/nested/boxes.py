"""What a box in a strange place must show: shared by the nested and the rootless tests."""
import json
import re

import box

# Layers that may be inactive in a run that succeeded, each with what the caller said or what the place has.
ALWAYS = ("capabilities", "no_new_privs", "seccomp", "landlock", "landlock_scope", "rlimits")
NEEDED = {"process": (*ALWAYS, "watchdog"), "container": (*ALWAYS, "namespaces", "root")}
HINTS = re.compile(r"(--accept|--security-opt|--cap-add|--user|--privileged)(?:[= ]([\w=/:-]+))?")


def parse(done):
    """The JSON that a run printed, whatever it is."""
    try:
        return json.loads(done.stdout)
    except ValueError:
        raise AssertionError(f"no JSON: {done}") from None


def layers_of(result):
    return {layer["name"]: layer for layer in result["layers"]}


def must_confine(result, engine, accepted=()):
    """Every layer that this engine must have is listed and active; a missing one was accepted by name."""
    layers = layers_of(result)
    for name in NEEDED[engine]:
        assert layers.get(name, {}).get("active") is True, f"{name} is missing or inert: {result['layers']}"
    if engine == "container" and not layers["cgroup"]["active"]:
        assert {"memory", "cpus"} <= set(accepted), f"limits are missing without a word: {result['layers']}"
        assert layers["watchdog"]["active"], "nothing stands in for the groups"
    assert "no listener" not in layers["seccomp"]["detail"], result["layers"]


def must_be_refused(done):
    """A layer is missing, and the message says what to do."""
    result = parse(done)
    assert done.returncode == box.LAYER_MISSING, done
    message = result["error"]["message"]
    assert result["error"]["code"] == "layer_missing" and result["error"]["layer"], result
    assert HINTS.search(message) or "--isolation process" in message, f"the message helps nobody: {message}"
    return message


def facts_of(result):
    return result["stdout"].splitlines()


SEALED = ("capabilities 0 0 0 0 0 0", "no_new_privs 1", "seccomp 2", "session own", "internet EPERM", "netlink EPERM",
          "unshare EPERM", "ptrace EPERM", "own file allowed")


def must_be_sealed(result):
    """What the guest itself sees of it (tests/fault/facts.c)."""
    facts = facts_of(result)
    for fact in SEALED:
        assert fact in facts, f"'{fact}' does not hold: {facts}"
    descriptors = [fact for fact in facts if fact.startswith("descriptor")]
    assert descriptors == ["descriptor 0 ", "descriptor 1 ", "descriptor 2 "], descriptors
    for fact in facts:
        if fact.startswith("canary"):
            assert fact in ("canary EACCES", "canary ENOENT"), fact
        if fact.startswith(("write ", "read ")):
            assert not fact.endswith(("allowed", "content")), fact
