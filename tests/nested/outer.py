"""Containers to run cloche in: podman as it comes, and crun with a user namespace and nothing granted.

Both live in a private world, whose control groups are v1 without the empty v2 hierarchy of a hybrid machine (crun 1.8
refuses that). The root of a container is a small directory; /usr is the host's, read-only.
"""
import json
import pathlib
import platform
import shutil

import box

MACHINES = {"x86_64": ("amd64", "SCMP_ARCH_X86_64"), "aarch64": ("arm64", "SCMP_ARCH_AARCH64")}
SHOWN = {"/usr": "/usr", "/etc/alternatives": "/etc/alternatives", "/tmp/cloche": "/cloche", "/tmp/facts": "/facts",
         **{f"/tmp/{program.name}": f"/{program.name}" for program in box.OTHER_PROGRAMS}}
FIRST_MAPPED = 300000


def missing_programs(*names):
    missing = [name for name in names if not shutil.which(name)]
    return f"needs {', '.join(missing)}" if missing else None


def make_root(world, root):
    """A directory with the places that a container mounts on, and two files that a box must not read."""
    world.shell(f"""
        set -e
        mkdir -p {root}
        cd {root}
        mkdir -p usr proc sys dev tmp run root home/somebody etc/alternatives etc/ssl var/lib var/tmp
        touch cloche facts
        chmod 1777 tmp var/tmp
        chmod 0777 home/somebody run var/lib
        for name in bin sbin lib lib64; do ln -sf usr/$name $name; done
        printf 'root:x:0:0::/root:/bin/sh\\nsomebody:x:1000:1000::/home/somebody:/bin/sh\\n' > etc/passwd
        echo canary-of-the-outer-container > canary
        echo canary-of-somebody > home/somebody/private
        chmod 0644 canary home/somebody/private""")


class Podman:
    """podman run --rootfs, as root of the machine: its default filter, capabilities and masks."""

    ROOT = "/tmp/podman-root"

    def __init__(self, world):
        self.world = world
        world.run("mount", "-t", "tmpfs", "-o", "mode=0755", "podman", "/var/lib")  # it writes there all the same
        make_root(world, self.ROOT)
        world.baseline = world.census()
        self.client = ["podman", "--root", "/tmp/podman/root", "--runroot", "/tmp/podman/run", "--tmpdir", "/tmp/podman/tmp",
                       "--cgroup-manager", "cgroupfs", "--events-backend", "none", "--runtime", shutil.which("crun")]

    def run(self, command, *options, timeout=60):
        shown = [f"--volume={source}:{target}:ro" for source, target in SHOWN.items()]
        # Its default limits may be above those of this machine, and then the start is refused.
        limits = ["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024"]
        done = self.world.run(*self.client, "run", "--rm", "--network", "none", *limits, *shown, *options, "--rootfs",
                              self.ROOT, *map(str, command), timeout=timeout)
        assert done.returncode not in (125, 126, 127), f"podman itself fails: {done.stderr.decode()}"
        return done


class Crun:
    """crun with a bundle as strict platforms have it: user namespace, no capability, no_new_privs, default filter."""

    ROOT = "/tmp/crun/rootfs"

    def __init__(self, world):
        self.world = world
        self.count = 0
        make_root(world, self.ROOT)
        world.shell(f"chown -R {FIRST_MAPPED}:{FIRST_MAPPED} {self.ROOT}; "
                    f"chown {FIRST_MAPPED + 1000}:{FIRST_MAPPED + 1000} {self.ROOT}/home/somebody/private")

    def run(self, command, user=0, timeout=60, **filtered):
        self.count += 1
        self.world.write("/tmp/crun/config.json", json.dumps(self.bundle(list(map(str, command)), user, default_filter(**filtered))))
        return self.world.run("crun", "--root", "/tmp/crun/state", "--cgroup-manager=disabled", "run", "--bundle",
                              "/tmp/crun", f"outer-{self.count}", timeout=timeout)

    @staticmethod
    def bundle(command, user, seccomp):
        mapping = [{"containerID": 0, "hostID": FIRST_MAPPED, "size": 65536}]
        kinds = ("pid", "network", "ipc", "uts", "mount", "user")
        mounts = [{"destination": target, "type": "bind", "source": source, "options": ["rbind", "ro"]}
                  for source, target in SHOWN.items()]
        mounts += [{"destination": "/proc", "type": "proc", "source": "proc", "options": ["nosuid", "noexec", "nodev"]},
                   {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755"]},
                   {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=1777"]},
                   {"destination": "/run", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=1777"]}]
        return {
            "ociVersion": "1.0.0",
            "process": {
                "terminal": False, "user": {"uid": user, "gid": user}, "args": command, "cwd": "/",
                "env": ["PATH=/usr/bin:/bin"], "noNewPrivileges": True,
                "capabilities": {name: [] for name in ("bounding", "effective", "inheritable", "permitted", "ambient")},
            },
            "root": {"path": "rootfs"},
            "hostname": "outer",
            "mounts": mounts,
            "linux": {
                "namespaces": [{"type": kind} for kind in kinds], "uidMappings": mapping, "gidMappings": mapping,
                "maskedPaths": ["/proc/kcore", "/proc/keys", "/proc/timer_list"],
                "readonlyPaths": ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"],
                "seccomp": seccomp,
            },
        }


# What Docker's filter has only for who has CAP_SYS_ADMIN, and podman's for all; and how it lets clone pass: without new namespaces.
DOCKER_LACKS = {"clone", "clone3", "mount", "umount", "umount2", "unshare", "setns", "pivot_root", "fsopen", "fsconfig", "fsmount", "fspick",
                "move_mount", "open_tree", "mount_setattr", "sethostname", "setdomainname", "keyctl", "bpf", "perf_event_open"}
DOCKER_HAS = [{"names": ["clone"], "action": "SCMP_ACT_ALLOW", "args": [{"index": 0, "value": 0x7e020000, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"}]},
              {"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": 38}]


def default_filter(one_abi=False, as_docker=False):
    """The filter of the containers packages for a container without capabilities, as runtimes take it.

    one_abi: it names the native ABI only, as many profiles do; calls of any other kill then. as_docker: as Docker's own has it."""
    profile = json.loads(pathlib.Path("/usr/share/containers/seccomp.json").read_text())
    name, architecture = MACHINES[platform.machine()]
    rules = []
    for rule in profile["syscalls"]:
        includes, excludes = rule.get("includes") or {}, rule.get("excludes") or {}
        if includes.get("caps") or name in excludes.get("arches", []) or name not in includes.get("arches", [name]):
            continue
        rules.append({key: rule[key] for key in ("names", "action", "args", "errnoRet") if rule.get(key)})
    if as_docker:
        rules = [{**rule, "names": left} for rule in rules if (left := [name for name in rule["names"] if name not in DOCKER_LACKS])] + DOCKER_HAS
    others = [] if one_abi else [other for row in profile["archMap"] if row["architecture"] == architecture
                                 for other in row["subArchitectures"]]
    return {"defaultAction": profile["defaultAction"], "defaultErrnoRet": profile.get("defaultErrnoRet", 1),
            "architectures": [architecture, *others], "syscalls": rules}
