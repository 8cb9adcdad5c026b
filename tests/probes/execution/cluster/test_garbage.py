"""Full collections while a worker loads its models are short, and nothing is kept for good."""

import gc
import weakref

import pytest

from probes.execution.cluster.garbage import frozen
from tests.probes.execution.cluster import light_stage

MANY = 200_000


@pytest.fixture(autouse=True)
def as_before():
    gc.unfreeze()
    yield
    gc.freeze()  # as `tests/conftest.py` does


class Ring:
    """Garbage that only a collection finds."""

    def __init__(self):
        self.itself = self


def test_a_collection_looks_at_what_came_since_the_last():
    callbacks = list(gc.callbacks)
    with frozen():
        loaded = [[number] for number in range(MANY)]
        gc.collect()
        assert len(gc.get_objects()) < MANY / 100
        loaded += [[number] for number in range(1000)]
        assert len(gc.get_objects()) >= 1000
    assert gc.get_freeze_count() > MANY and gc.callbacks == callbacks


def test_a_younger_generation_freezes_nothing():
    with frozen():
        gc.collect(1)
        assert not gc.get_freeze_count()


def test_a_worker_of_ray_freezes_what_it_opens_and_lets_go_of_it_with_the_stage():
    pytest.importorskip("ray")
    from probes.execution.cluster.on_ray import Actor

    worker, told = Actor(), (f"{light_stage.HERE}:opened", light_stage.job(None, 0.0))
    ring = Ring()
    gone = weakref.ref(ring)
    assert worker.open_stage(*told) == "none"
    assert gc.get_freeze_count() > len(gc.get_objects())
    del ring
    gc.collect()
    assert gone() is not None
    assert worker.open_stage(*told) == "none" and gone() is None
    worker._close()
    assert not gc.get_freeze_count()
