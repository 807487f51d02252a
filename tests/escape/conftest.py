import pytest
import world as world_module


@pytest.fixture(scope="session")
def world():
    made = world_module.World()
    yield made
    made.close()
