"""Every system call of the launcher fails once, and every interesting one of the box's first process.

After each: no crash, no hang, no success that is none (what comes out is exactly that of an untouched run, layers
and all that the guest sees of its confinement included), a word with every refusal, and nothing that a reap does not
remove. The second test of each pair is stricter: nobody was killed, so nothing may be left for a reap at all.
"""
import collections
import errno
import functools

import pytest

from faults import FACTS, ORDINARY, Breaker, Report, Shape, in_parallel, report_complaints, thin_out

ERRORS = {"EIO": ["EIO"], "EPERM": ["EPERM"], "scarcity": ["ENOMEM", "EMFILE", "ENOSPC"],
          "any": ["EIO", "ENOMEM", "EMFILE", "ENOSPC", "EPERM"]}

# Every call fails with EIO; with the others one of three.
EVERY = {"EPERM": slice(0, None, 3), "scarcity": slice(1, None, 3)}


def facts_shape(engine):
    return Shape(*FACTS, engine=engine)


def files_shape(engine):
    """Code in a language, an input, collected output: the parts of the launcher that a bare command does not reach."""
    def prepare(world):
        world.write("/tmp/input.txt", "what came in\n")
        out = world.outside("/tmp/out")
        out.mkdir(exist_ok=True)
        for path in out.iterdir():
            path.unlink()

    def collected(world):
        return {path.name: path.read_text() for path in world.outside("/tmp/out").iterdir()}

    code = 'read line < "$CLOCHE_INPUT/input.txt"; echo "$line" > copy.txt; echo done'
    return Shape("--input", "/tmp/input.txt", "--output", "/tmp/out", "--language", "bash", "-e", code, engine=engine,
                 prepare=prepare, expect=collected)


def streams_shape(engine):
    return Shape("--", "/bin/sh", "-c", "echo out; echo error >&2", engine=engine, json_result=False)


def user_shape(engine):
    """Started by an ordinary user: other identities, mediated calls, no groups."""
    accepted = ["--accept", "memory", "--accept", "cpus"] if engine == "container" else []
    return Shape(*accepted, *FACTS, engine=engine, prefix=ORDINARY)


def first_of_main(report):
    """The number of the first call of main: what the C library does before it cannot be answered for."""
    return next(call.index for call in report.calls if call.process == 0 and call.path == "/dev/null")


class Sweeps:
    """Each sweep is made once, and looked at by two tests."""

    def __init__(self, worlds):
        self.worlds = worlds
        self.make = functools.lru_cache(maxsize=None)(self.make_uncached)

    def make_uncached(self, shape_of, engine, who, error):
        shape = shape_of(engine)
        for world in self.worlds:
            shape.untouched(world)
            world.baseline = world.census()  # with the directories that a user's first run makes
        shape.learn(self.worlds[0])
        number_of = {"launcher": lambda made: 0, "init": Report.init, "program": Report.program}[who]
        surveys = [Breaker(self.worlds[0], shape).survey() for _ in range(8)]
        # Processes are numbered as they are born, and helpers of ours beside each other: as most runs have it.
        process = collections.Counter(map(number_of, surveys)).most_common(1)[0][0]
        # A watchdog goes round more often when the machine is slow: the shortest of some runs is what others have too.
        report = min((made for made in surveys if number_of(made) == process), key=lambda made: len(made.calls))
        calls = [call for call in report.calls if call.process == process]
        if who == "launcher":
            first = first_of_main(report)
            indices = [call.index for call in calls if call.index >= first]
            # A loop may go round once more than in the survey: go on until a run passes untouched.
            indices += range(indices[-1] + 1, indices[-1] + 5)
            indices = indices[EVERY.get(error, slice(None)) if not shape.prefix else slice(None, None, 2)]
        else:
            indices = [call.index for call in thin_out(calls)][::3 if shape.prefix else 2 if who == "init" else 1]
        codes = [getattr(errno, name) for name in ERRORS[error]]  # one after the other from call to call

        def one(world, index):
            return Breaker(world, shape).fail_call(process, index, codes[index % len(codes)])

        outcomes = in_parallel(self.worlds, indices, one)
        # A watchdog's rounds differ from run to run; most calls must be met all the same.
        assert sum(outcome.hit is not None for outcome in outcomes) > 0.7 * len(indices), \
            "the tool does not reach the calls that it listed"
        return outcomes


@pytest.fixture(scope="module")
def sweeps(worlds):
    return Sweeps(worlds)


CASES = {
    **{f"launcher-{error}": (facts_shape, "launcher", error) for error in ("EIO", "EPERM", "scarcity")},
    "launcher-files-EIO": (files_shape, "launcher", "EIO"),
    "launcher-streams-EIO": (streams_shape, "launcher", "EIO"),
    "user-EIO": (user_shape, "launcher", "EIO"),
    "user-init-any": (user_shape, "init", "any"),
    "init-any": (facts_shape, "init", "any"),
    "program-EPERM": (facts_shape, "program", "EPERM"),
}


@pytest.mark.parametrize("case", CASES)
def test_any_failing_call_ends_in_a_sound_outcome(sweeps, engine, case):
    shape, who, error = CASES[case]
    report_complaints(outcome.complaint for outcome in sweeps.make(shape, engine, who, error))


@pytest.mark.parametrize("case", CASES)
def test_any_failing_call_needs_no_reap(sweeps, engine, case):
    shape, who, error = CASES[case]
    report_complaints(outcome.left for outcome in sweeps.make(shape, engine, who, error))
