"""Every system call number from 0 to 600, in three ABIs, answers as the policy table says: as in tests/escape."""
import concurrent.futures
import csv

import box
from checks import Count, role, say, test
from checks.probes import World

LAST = 600
WORKERS = 2

# The kernel's own answers, whatever the table says (tests/escape/probe/README.md).
KERNEL_OWN = {
    "rt_sigreturn": {"killed:SIGSEGV"},
    "pause": {"timeout"},
    "setgroups": {"EPERM"},
    "map_shadow_stack": {"ENOSYS", "EOPNOTSUPP"},
}
PASS_BY_EVERY_FILTER = {335, 336}
# Newer than Linux 6.1: what the filter lets through, the kernel does not know.
NEWER = {"fchmodat2", "futex_wake", "futex_wait", "futex_requeue", "mseal"}


def variant(engine):
    return "process_shared_uid" if (role(), engine) == ("user", "process") else engine


def table():
    with open(box.BUILD / "seccomp_policy.tsv", newline="") as text:
        return {int(row["number"]): row for row in csv.DictReader(text, delimiter="\t")}


def answers(world, engine, abi, first, last):
    """Number → outcome. A call that ends the box is answered `end`, and the next box goes on behind it."""
    seen, number = {}, first
    while number <= last:
        result = world.run(engine, "--syscalls", abi, number, last)
        for line in result.json.get("stdout", "").splitlines():
            tried, outcome = line.split("\t")
            seen[int(tried)] = outcome
        latest = max(seen, default=number)
        if result.json.get("cause") == "denied_syscall":
            assert seen[latest] == "try", (latest, seen[latest])
            seen[latest] = "end:" + (result.denied_syscall or "?")
        else:
            assert result.json.get("cause") == "exit" and result.exit_code == 0, result
        number = latest + 1
    return seen


def is_wrong(row, verdict, outcome):
    if outcome in KERNEL_OWN.get(row["name"], ()) or (outcome == "ENOSYS" and row["name"] in NEWER):
        return False
    if verdict == "kill":
        return outcome != "end:" + row["name"]
    if verdict == "EPERM" and row["checks"] == "no":
        return outcome != "EPERM"
    if verdict == "ENOSYS":
        return outcome != "ENOSYS"
    return outcome.startswith("end") or outcome in ("killed:SIGSYS", "ENOSYS")  # allowed, asked or by its arguments


def compare(abi, seen, engine):
    rows, wrong = table(), []
    for number, outcome in seen.items():
        row = rows.get(number) if abi == "native" else None
        if number in PASS_BY_EVERY_FILTER and abi == "native":
            continue
        if is_wrong(row, row[variant(engine)], outcome) if row else outcome != "ENOSYS":
            wrong.append(f"    {abi} {number} {row['name'] if row else ''}: {outcome}")
    return wrong


@test("root", "user")
def every_number_answers_as_the_table_says(engine):
    world = World()
    parts = [("native", 0, 160), ("native", 161, 320), ("native", 321, LAST), ("x32", 0, LAST), ("i386", 0, LAST)]
    found = {}
    try:
        with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
            jobs = {pool.submit(answers, world, engine, *part): part[0] for part in parts}
            for job in concurrent.futures.as_completed(jobs):
                found.setdefault(jobs[job], {}).update(job.result())
    finally:
        world.close()
    wrong = []
    for abi, seen in found.items():
        assert set(seen) == set(range(LAST + 1)), (abi, len(seen))
        wrong += compare(abi, seen, engine)
    for line in wrong:
        say(line)
    return Count(len(found), 0) if not wrong else Count(0, len(wrong))
