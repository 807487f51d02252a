"""Every system call number from 0 to 600, in three ABIs, answers as the policy table says."""
import csv

import pytest

import box

LAST = 600
VARIANT = {"container": "container", "process": "process"}  # tests run as root: the box has a uid of its own

# The kernel's own answers, whatever the table says (see tests/escape/probe/README.md).
KERNEL_OWN = {
    "rt_sigreturn": {"killed:SIGSEGV"},
    "pause": {"timeout"},
    "setgroups": {"EPERM"},
    "map_shadow_stack": {"ENOSYS", "EOPNOTSUPP"},
    "uretprobe": {"killed:SIGILL", "ENXIO", "ENOSYS", "EPERM"},
}
PASS_BY_EVERY_FILTER = {335, 336}  # uretprobe and uprobe, on kernels that have them


def table():
    with open(box.BUILD / "seccomp_policy.tsv", newline="") as text:
        return {int(row["number"]): row for row in csv.DictReader(text, delimiter="\t")}


def answers(world, engine, abi):
    """Number → outcome. A call that ends the box is answered `end`, and the next box goes on behind it."""
    seen, number = {}, 0
    while number <= LAST:
        result = world.run(engine, "--syscalls", abi, number, LAST)
        for line in result.stdout.splitlines():
            tried, outcome = line.split("\t")
            seen[int(tried)] = outcome
        last = max(seen, default=number)
        if result.json.get("cause") == "denied_syscall":
            assert seen[last] == "try", (last, seen[last])
            seen[last] = "end:" + (result.denied_syscall or "?")
        else:
            assert result.json.get("cause") == "exit" and result.exit_code == 0, result
        number = last + 1
    return seen


@pytest.fixture(params=["container", "process", "forked process"])
def place(request):
    """A fork without namespaces wears two filters: the answers must be those of the one that a box which is started has."""
    return request.param


@pytest.mark.parametrize("abi", ["x32", "i386"])
def test_foreign_abis_answer_enosys_for_every_number(world, place, abi):
    wrong = {number: outcome for number, outcome in answers(world, place, abi).items() if outcome != "ENOSYS"}
    assert wrong == {}


def expected(row, verdict):
    if verdict == "kill":
        return {"end:" + row["name"]}
    if verdict == "EPERM" and row["checks"] == "no":
        return {"EPERM"}
    if verdict == "ENOSYS":
        return {"ENOSYS"}
    return None  # allowed, asked or conditional: anything but the end; the probes look at the conditions


def test_native_numbers_answer_as_the_table_says(world, place):
    rows, wrong = table(), {}
    seen = answers(world, place, "native")
    assert set(seen) == set(range(LAST + 1))
    for number, outcome in seen.items():
        row = rows.get(number)
        if number in PASS_BY_EVERY_FILTER:
            continue
        if row is None:
            if outcome != "ENOSYS":
                wrong[number] = outcome
            continue
        wanted = expected(row, row[VARIANT[place.rpartition(" ")[2]]])
        if row["name"] in KERNEL_OWN and outcome in KERNEL_OWN[row["name"]]:
            continue
        if wanted is None and (outcome.startswith("end") or outcome == "killed:SIGSYS" or outcome == "ENOSYS"):
            wrong[row["name"]] = outcome
        elif wanted is not None and outcome not in wanted:
            wrong[row["name"]] = outcome
    assert wrong == {}


def test_without_the_filter_the_numbers_answer_otherwise(world, engine):
    """The control: what the table denies reaches the kernel in a box without the filter."""
    result = world.run(engine, "--syscalls", "native", 100, 334, weaken="seccomp")
    seen = dict(line.split("\t") for line in result.stdout.splitlines())
    assert result.cause == "exit"
    assert sum(outcome not in ("EPERM", "ENOSYS", "try") for outcome in seen.values()) > 150
    assert seen["321"] != "ENOSYS"  # bpf answers, and the box lives
