"""Every system call of the launcher fails once, and every interesting one of the box's first process.

After each: no crash, no hang, no success that is none (what comes out is exactly that of an untouched run, layers
and all that the guest sees of its confinement included), a word with every refusal, and nothing left behind without
any reap, since nobody was killed.
"""
import errno

import pytest

from faults import FACTS, Breaker, Shape, in_parallel, report_complaints, thin_out

ERRORS = ("EIO", "ENOMEM", "EMFILE", "ENOSPC", "EPERM")


def first_of_main(report):
    """The number of the first call of main: what the C library does before it cannot be answered for."""
    return next(call.index for call in report.calls if call.process == 0 and call.path == "/dev/null")


def sweep(worlds, shape, process_of, code, first_of=None, choose=None):
    shape.learn(worlds[0])
    report = Breaker(worlds[0], shape).survey()
    process = process_of(report)
    calls = [call for call in report.calls if call.process == process]
    first = first_of(report) if first_of else 1
    indices = [call.index for call in (choose(calls) if choose else calls) if call.index >= first]
    if not choose:  # one run more or less of the same loop: go on until a run passes untouched
        indices += range(indices[-1] + 1, indices[-1] + 4)

    def one(world, index):
        return Breaker(world, shape).fail_call(process, index, code(index) if callable(code) else code)

    outcomes = in_parallel(worlds, indices, one)
    hits = [hit for hit, _ in outcomes if hit]
    assert len(hits) > len(indices) * 0.9, "the tool does not reach the calls that it listed"
    report_complaints(complaint for _, complaint in outcomes)


@pytest.mark.parametrize("error", ERRORS)
def test_any_call_of_the_launcher_fails(worlds, engine, error):
    shape = Shape(*FACTS, engine=engine)
    sweep(worlds, shape, lambda report: 0, getattr(errno, error), first_of_main)


def test_any_call_of_the_box_before_the_program_fails(worlds, engine):
    codes = [getattr(errno, name) for name in ERRORS]
    shape = Shape(*FACTS, engine=engine)
    sweep(worlds, shape, lambda report: report.init(), lambda index: codes[index % len(codes)], choose=thin_out)


def test_any_call_between_fork_and_program_fails(worlds, engine):
    shape = Shape(*FACTS, engine=engine)
    sweep(worlds, shape, lambda report: report.program(), errno.EPERM, choose=thin_out)


def files_shape(engine):
    """Code in a language, an input, collected output: the parts of the launcher that a bare command does not reach."""
    def prepare(world):
        world.write("/tmp/input.txt", "what came in\n")
        world.shell("rm -rf /tmp/out; mkdir /tmp/out")

    def collected(world):
        out = world.outside("/tmp/out")
        return {path.name: path.read_text() for path in out.iterdir()}

    code = 'read line < "$CLOCHE_INPUT/input.txt"; echo "$line" > copy.txt; echo done'
    return Shape("--input", "/tmp/input.txt", "--output", "/tmp/out", "--language", "bash", "-e", code, engine=engine,
                 prepare=prepare, expect=collected)


def test_any_call_fails_when_files_go_in_and_out(worlds, engine):
    sweep(worlds, files_shape(engine), lambda report: 0, errno.EIO, first_of_main)


def test_any_call_fails_when_streams_are_passed_through(worlds, engine):
    shape = Shape("--", "/bin/sh", "-c", "echo out; echo error >&2; exit 7", engine=engine, json_result=False)
    sweep(worlds, shape, lambda report: 0, errno.EIO, first_of_main)
