"""What a test left on the host, on a machine where other boxes may run at the same time."""
import collections
import time

import box
import records

UID_BASE = 0x7d000000  # of the boxes that root starts; those of their gateways follow
NUMBERS = 65536


def differences(before, now):
    """Items that are there now and were not before, as a set."""
    items = set()
    for kind in ("groups", "processes", "records", "directories", "namespaces", "temporary"):
        items |= {(kind, item) for item in now[kind]} - {(kind, item) for item in before[kind]}
    more = collections.Counter(now["mounts"]) - collections.Counter(before["mounts"])  # one place can have several
    return items | {("mounts", place) for place in more}


def belongs_to_the_living(item):
    """Boxes of somebody else's that run meanwhile hold the lock of their record."""
    kind, what = item
    if kind == "temporary":
        return True  # of other users and other suites: root's boxes have nothing in /tmp
    if kind == "processes":
        return records.is_owned((what[2] - UID_BASE) % NUMBERS)
    number = str(what).rsplit("-", 1)[-1]
    return number.isdigit() and records.is_owned(int(number))


def leftovers(before, seconds=3):
    """What stays for as long as we look, and is not of a box that somebody else runs at the same time."""
    left = differences(before, box.census())
    deadline = time.monotonic() + seconds
    while (left := {item for item in left if not belongs_to_the_living(item)}) and time.monotonic() < deadline:
        time.sleep(0.05)
        left &= differences(before, box.census())
    return left
