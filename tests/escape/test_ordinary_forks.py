"""The probes in boxes without namespaces that an ordinary user's keeper forks: all of them are of that user, as is the
zygote, and hold as those that the same user starts."""
import os
import shutil
import tempfile

import pytest

import box
import keeper
import world as world_module
from test_probes import ABOUT_THE_CODE, HELD, outcome

USER = 54323
KIND = "python/process"
PROBES = [probe for probe in world_module.probes() if "process" in probe.engines and probe.name not in ABOUT_THE_CODE]


@pytest.fixture(scope="module")
def whose():
    directory = tempfile.mkdtemp(prefix="cloche-person-", dir="/tmp")
    os.chown(directory, USER, USER)
    places = {"HOME": directory, "TMPDIR": directory, "XDG_RUNTIME_DIR": directory, "CLOCHE_KEEPER": f"{directory}/socket"}
    yield {"user": USER, "env": places}
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="module")
def kept(world, whose):
    whose["env"] |= world.launcher_env
    with keeper.Keeper("--spares", 2, "--preload", "numpy", "--language", KIND, warm=False, pass_fds=(world.canary_fd,), **whose) as made:
        made.await_spares(KIND)
        yield made


@pytest.mark.parametrize("probe", PROBES, ids=[probe.name for probe in PROBES])
def test_holds_as_in_a_box_that_is_started(world, kept, whose, probe):
    given = [f"--env=CLOCHE_PROBE_{name}={value}" for name, value in world.variables.items()]
    given += ["-e", box.TRAMPOLINE, "/tmp/program", "comes", probe.name]
    before = kept.kind(KIND)
    forked = box.run("--warm", "--isolation", "process", *given, input=box.PROBE.read_bytes(), **whose)
    after = kept.kind(KIND)
    assert after["hits"] + after["misses"] > before["hits"] + before["misses"] and after["zygote_pid"] > 0, "the run was not a fork"
    if outcome(forked, probe) == HELD:
        return
    cold = box.run("--isolation", "process", *given, input=box.PROBE.read_bytes(), **whose)
    assert outcome(forked, probe) == outcome(cold, probe), (forked, cold)
