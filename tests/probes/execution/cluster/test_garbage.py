"""Full collections while a worker loads its models are short, and nothing is kept for good."""

import gc

import pytest

from probes.execution.cluster.garbage import frozen

MANY = 200_000


@pytest.fixture(autouse=True)
def as_before():
    gc.unfreeze()
    yield
    gc.freeze()  # as `tests/conftest.py` does


def test_a_collection_looks_at_what_came_since_the_last():
    callbacks = list(gc.callbacks)
    with frozen():
        loaded = [[number] for number in range(MANY)]
        gc.collect()
        assert len(gc.get_objects()) < MANY / 100
        loaded += [[number] for number in range(1000)]
        assert len(gc.get_objects()) >= 1000
    assert gc.get_freeze_count() > MANY and gc.callbacks == callbacks
