"""crun, runc and runsc, each on the same OCI bundle: the host's /usr read-only.

The bundle asks for what cloche's container gives: all namespaces with the user
namespace, no capabilities, no new privileges, the seccomp profile that Debian's
containers packages ship, 512 MB and 64 processes.  Where a machine cannot give
all of it, the next variant is tried, and the note says what was off.
"""

import json
import platform
from dataclasses import dataclass
from typing import List

import measure
from contenders import PROGRAM, PYTHON, merged_links
from stage import find_program, first_line

SECCOMP_PROFILE = "/usr/share/containers/seccomp.json"
# machine -> (name in the profile's rules, name in libseccomp)
ARCHITECTURES = {
    "x86_64": ("amd64", "SCMP_ARCH_X86_64"),
    "aarch64": ("arm64", "SCMP_ARCH_AARCH64"),
}
MEMORY_LIMIT_BYTES = 512 * 1024 * 1024
PROCESS_LIMIT = 64
# Host ids that no user of a machine normally has.
MAPPED_IDS = [{"containerID": 0, "hostID": 200000, "size": 65536}]
CAPABILITY_SETS = ("bounding", "effective", "inheritable", "permitted", "ambient")


@dataclass
class Variant:
    """One way to ask for a container; `off` is what a reader must know is missing."""

    user_namespace: bool
    limits: bool
    flags: List[str]
    off: str = ""
    seccomp: bool = True


def seccomp_for_no_capabilities():
    """The distribution's profile, resolved for this architecture and a container
    without capabilities, in the form that OCI runtimes take; None when absent."""
    try:
        with open(SECCOMP_PROFILE, encoding="utf-8") as file:
            profile = json.load(file)
        rule_name, architecture = ARCHITECTURES[platform.machine()]
    except (OSError, KeyError):
        return None
    architectures = [architecture]
    for entry in profile.get("archMap", []):
        if entry["architecture"] == architecture:
            architectures += entry["subArchitectures"]
    rules = []
    for rule in profile["syscalls"]:
        includes, excludes = rule.get("includes") or {}, rule.get("excludes") or {}
        if includes.get("caps") or rule_name in excludes.get("arches", []):
            continue
        if includes.get("arches") and rule_name not in includes["arches"]:
            continue
        kept = {"names": rule["names"], "action": rule["action"]}
        if rule.get("args"):
            kept["args"] = rule["args"]
        if rule.get("errnoRet"):
            kept["errnoRet"] = rule["errnoRet"]
        rules.append(kept)
    return {
        "defaultAction": profile["defaultAction"],
        "defaultErrnoRet": profile.get("defaultErrnoRet", 1),
        "architectures": architectures,
        "syscalls": rules,
    }


def mounts():
    read_only = ["rbind", "ro", "nosuid", "nodev"]
    return [
        {"destination": "/usr", "type": "bind", "source": "/usr", "options": read_only},
        {
            "destination": "/etc/alternatives",
            "type": "bind",
            "source": "/etc/alternatives",
            "options": read_only,
        },
        {
            "destination": "/proc",
            "type": "proc",
            "source": "proc",
            "options": ["nosuid", "noexec", "nodev"],
        },
        {
            "destination": "/dev",
            "type": "tmpfs",
            "source": "tmpfs",
            "options": ["nosuid", "strictatime", "mode=755", "size=64k"],
        },
        {
            "destination": "/tmp",
            "type": "tmpfs",
            "source": "tmpfs",
            "options": ["nosuid", "nodev", "mode=1777", "size=100m"],
        },
    ]


def linux_section(cgroup_path, variant):
    kinds = ["pid", "network", "ipc", "uts", "mount", "cgroup"]
    section = {
        "namespaces": [{"type": kind} for kind in kinds],
        "cgroupsPath": cgroup_path,
        "maskedPaths": ["/proc/kcore", "/proc/keys", "/proc/timer_list"],
        "readonlyPaths": ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"],
    }
    if variant.user_namespace:
        section["namespaces"].append({"type": "user"})
        section["uidMappings"] = section["gidMappings"] = MAPPED_IDS
    if variant.limits:
        section["resources"] = {
            "memory": {"limit": MEMORY_LIMIT_BYTES, "swap": MEMORY_LIMIT_BYTES},
            "pids": {"limit": PROCESS_LIMIT},
        }
    seccomp = seccomp_for_no_capabilities() if variant.seccomp else None
    if seccomp:
        section["seccomp"] = seccomp
    return section


def make_bundle(stage, name, variant):
    """Write one bundle below the stage; returns its directory."""
    bundle = stage.make_directory("bundle", name)
    for place in ("usr", "etc/alternatives", "proc", "dev", "tmp"):
        stage.make_directory("bundle", name, "rootfs", place)
    for link, target in merged_links().items():
        (bundle / "rootfs" / link).symlink_to(target)
    config = {
        "ociVersion": "1.0.0",
        "process": {
            "terminal": False,
            "user": {"uid": 0, "gid": 0},
            "args": [PYTHON, "-c", PROGRAM],
            "env": ["PATH=/usr/bin:/bin", "LANG=C.UTF-8"],
            "cwd": "/",
            "noNewPrivileges": True,
            "capabilities": {name: [] for name in CAPABILITY_SETS},
        },
        "root": {"path": "rootfs", "readonly": True},
        "hostname": "bench",
        "mounts": mounts(),
        "linux": linux_section(f"/{stage.cgroup_name}/{name}", variant),
    }
    (bundle / "config.json").write_text(json.dumps(config))
    return bundle


def variants(flags, flags_without_cgroups):
    """From the closest match of cloche's container to the least."""
    return [
        Variant(True, True, flags),
        Variant(False, True, flags, "user namespace"),
        Variant(True, False, flags_without_cgroups, "cgroups, so no limits"),
        Variant(False, False, flags_without_cgroups, "user namespace; cgroups, so no limits"),
    ]


def fresh_id_command(start, bundle, name):
    """Each run gets an id of its own, so that no run waits for another's removal."""
    return lambda number: [*start, "run", "--bundle", str(bundle), f"{name}-{number}"]


def first_working(stage, key, label, program, choices, note):
    """The first variant that prints what it should; else Missing with the reason of
    the closest match."""
    reasons = []
    for index, variant in enumerate(choices):
        name = f"{key}-{index}"
        bundle = make_bundle(stage, name, variant)
        start = [program, "--root", str(stage.make_directory("state", name)), *variant.flags]
        command = fresh_id_command(start, bundle, name)
        contender = measure.Contender(key, label, command, namespace=stage.namespace())
        measure.warm_up(contender, stage.keep(), times=1)
        if not contender.missing:
            limits = "512 MB, 64 processes" if variant.limits else ""
            parts = (variant.off and f"off: {variant.off}", note, limits)
            contender.note = "; ".join(filter(None, parts))
            contender.version = first_line(program, "--version", namespace=stage.namespace())
            return contender
        reasons.append(contender.missing)
    raise measure.Missing(reasons[0])


def full_note():
    """What the rows with everything have; first_working adds what is off after all."""
    has_profile = seccomp_for_no_capabilities() is not None
    seccomp = "seccomp" if has_profile else f"no seccomp ({SECCOMP_PROFILE} is absent)"
    return f"namespaces, {seccomp}"


def crun_note(stage, offers):
    # Without the hiding, crun 1.8 says "cgroups in hybrid mode not supported".
    stage.namespace()
    hidden = "v2 half of the hybrid cgroups hidden" if stage.hybrid_hidden else ""
    return "; ".join(filter(None, (offers, hidden)))


def crun(stage):
    choices = variants(["--cgroup-manager=cgroupfs"], ["--cgroup-manager=disabled"])
    note = crun_note(stage, full_note())
    return first_working(stage, "crun", "crun", find_program("crun"), choices, note)


def crun_bare(stage):
    """The fastest that crun can be: namespaces and nothing else.  Not like with like
    (its seccomp alone costs more than its namespaces), and a target all the same, so
    that being ahead of crun cannot be owed to a heavy configuration."""
    flags, off = ["--cgroup-manager=disabled"], "seccomp; cgroups, so no limits"
    choices = [
        Variant(True, False, flags, off, seccomp=False),
        Variant(False, False, flags, f"user namespace; {off}", seccomp=False),
    ]
    note = crun_note(stage, "namespaces, no capabilities")
    return first_working(stage, "crun-bare", "crun, bare", find_program("crun"), choices, note)


def runc(stage):
    # runc has no switch against cgroups; without limits it still makes the groups.
    choices = variants([], [])
    return first_working(stage, "runc", "runc", find_program("runc"), choices, full_note())


def runsc(stage):
    # The platform is named, so that a newer default does not change the row unseen.
    flags = ["--network=none", "--platform=ptrace"]
    contender = first_working(
        stage, "runsc", "runsc (gVisor)", find_program("runsc"),
        variants(flags, [*flags, "--ignore-cgroups"]),
        "user-space kernel, platform ptrace",
    )  # fmt: skip
    contender.slow = True
    return contender
