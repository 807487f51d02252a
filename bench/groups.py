"""Control groups of one's own, on either version."""

from pathlib import Path

TOP = Path("/sys/fs/cgroup")


def homes(wanted):
    """The directories of our own groups, one for each controller that is wanted and there (v1), or the one of all (v2)."""
    kinds = [kind for kind in wanted if (TOP / kind).is_dir()]
    lines = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
    if kinds:
        return [TOP / kind / path.lstrip("/") for kind in kinds for _, own, path in lines if kind in own.split(",")]
    return [TOP / path.lstrip("/") for _, own, path in lines if not own]


class Subgroups:
    """Groups below them, for the length of a `with`."""

    def __init__(self, wanted, name):
        self.homes = homes(wanted)
        self.own = [home / name for home in self.homes]

    def __enter__(self):
        for own in self.own:
            own.mkdir()
        return self

    def __exit__(self, *_):
        for own in self.own:
            own.rmdir()
