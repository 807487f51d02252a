"""Shared by the tests of the server: one server for the whole session, and a look at what is left after it."""
import box
import keyed as keyed_server
import leftovers
import pytest
import server
from sandbox import make


@pytest.fixture(scope="session")
def census():
    for engine in box.ENGINES:  # state directories are there
        box.raw("run", "--isolation", engine, "--", "/bin/true")
    before = box.census()
    yield before
    assert not leftovers.leftovers(before), "something of the servers' boxes is left"


@pytest.fixture(scope="session")
def serving(census):
    """A server in single-user mode, with few spares."""
    with server.Server("--spares", "1", "--preload", "json") as started:
        yield started


@pytest.fixture
def fresh(census):
    """fresh("--option", …, data=…) starts a server of the test's own."""
    started = []

    def start(*arguments, **options):
        started.append(server.Server("--spares", "0", "--preload", "json", *arguments, **options))
        return started[-1]
    yield start
    for one in started:
        one.close()


@pytest.fixture(scope="module")
def keyed(census):
    """A server with keys of several tenants, for the tests of one file."""
    started = keyed_server.Keyed()
    yield started
    started.close()


@pytest.fixture(scope="module")
def shared(serving):
    """One sandbox for the tests that leave nothing behind."""
    sandbox = make(serving, runs_max=1000)
    yield sandbox
    sandbox.close()
