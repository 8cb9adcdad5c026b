"""What stages will take: arithmetic over the pace of a machine, and nothing of one processor."""

import pytest

from probes.config.schema import Config
from probes.execution import workers
from probes.models.estimate import Pace
from probes.stages.calibration import pace
from triptych import stage_estimates

CONFIG = Config(prompts=["a {person}"], generate={"workers": 2})
PACE = Pace(step=0.02, image=0.02, speed=2e10, script=0.04)


class Observer:
    def __init__(self, device="cpu", seconds=0.1):
        self.device, self.seconds = device, seconds

    def needs(self):
        return self


@pytest.fixture(autouse=True)
def two_cores(monkeypatch):
    monkeypatch.setattr(workers, "cores", lambda: 2)


def test_a_machine_of_half_the_pace_takes_twice_as_long():
    slow = Pace(*(2 * value for value in (PACE.step, PACE.image)), PACE.speed / 2, 2 * PACE.script)
    fast, twice = (stage_estimates.seconds(CONFIG, 200, [Observer()], one) for one in (PACE, slow))
    assert list(fast) == ["observe", "measure", "report"]
    assert twice == pytest.approx({stage: 2 * value for stage, value in fast.items()})


def test_twice_the_images_take_more_but_less_than_twice_as_long():
    one, two = (stage_estimates.seconds(CONFIG, images, [Observer()], PACE) for images in (200, 400))
    assert all(one[stage] < two[stage] < 2 * one[stage] for stage in one)


def test_the_default_run_takes_what_it_took():
    """Within 1.5 of 216 images of 64 x 64 pixels on two quiet cores, where a unit of the script took 0.0725 s."""
    took = {"measure": 9.5, "report": 20.0}
    pace_then = Pace(step=0.03, image=0.02, speed=2e10, script=0.0725)
    found = stage_estimates.seconds(CONFIG, 216, [], pace_then, 64 * 64)
    assert found.keys() == took.keys()
    assert all(1 / 1.5 < found[stage] / took[stage] < 1.5 for stage in took)


def test_the_gallery_takes_longer_with_more_and_larger_images_and_nothing_where_it_is_off():
    off = Config(prompts=["a {person}"], generate={"workers": 2}, report={"all_triplets": False})

    def gallery(images, side):
        with_it, without = (
            stage_estimates.seconds(one, images, [], PACE, side * side)["report"] for one in (CONFIG, off)
        )
        return with_it - without

    assert 0 < gallery(90, 64) < gallery(90, 512) < gallery(90, 1024)
    assert gallery(180, 512) == pytest.approx(2 * gallery(90, 512))


def test_an_observer_on_a_gpu_is_left_out():
    assert "observe" not in stage_estimates.seconds(CONFIG, 200, [Observer("cuda")], PACE)
    assert "observe" not in stage_estimates.seconds(CONFIG, 200, [], PACE)


def test_the_pace_is_of_this_machine():
    """Steps and operations are timed together: their product is what a step computes, on every machine."""
    found = pace()
    assert found.step > 0 and found.script > 0 and found.image >= 0
    assert (
        1e8 < found.step * found.speed < 1e10
    )  # a call of the smallest U-Net, as counted on its description
