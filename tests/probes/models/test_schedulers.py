"""Every scheduler that diffusers has draws an image, or is refused in a line that says what can be used."""

import diffusers
import numpy as np
import pytest
import torch

from probes.errors import UserError
from probes.models import loading
from tests.probes.models.model_faults import INDEX, change, refused
from tests.tiny import tiny_pipeline

ALL_SCHEDULERS = sorted(
    name for name in dir(diffusers) if "Scheduler" in name and not name.endswith(("Output", "Mixin"))
)


@pytest.fixture(scope="module")
def pipe():
    return tiny_pipeline("toy")


def drawn(pipe, scheduler):
    """An image of two steps by a scheduler, which draws from the generator that it is given alone."""
    state = torch.random.get_rng_state()
    before, pipe.scheduler = pipe.scheduler, scheduler
    try:
        noise = torch.Generator().manual_seed(3)
        return pipe("a person with a dog", generator=noise, num_inference_steps=2, output_type="np").images
    finally:
        pipe.scheduler = before
        assert torch.equal(torch.random.get_rng_state(), state)


@pytest.mark.slow
def test_every_scheduler_of_diffusers_draws_or_is_refused(pipe):
    """Those that diffusers itself counts as interchangeable for Stable Diffusion, but for what they cannot do here.

    Schedulers differ in their default noise levels; the model's are taken, also where its file does not name them.
    """
    own, accepted = diffusers.DDIMScheduler.from_config(pipe.scheduler.config), set()
    for name in ALL_SCHEDULERS:
        try:
            chosen = loading.pick_scheduler(name, own)
        except UserError as error:
            said = f"sampler.scheduler: expected one of {', '.join(loading.SCHEDULERS)}, which diffusers exchanges"
            assert str(error).startswith(said) and len(str(error)) <= 400
            assert name not in loading.SCHEDULERS.values()
            continue
        accepted.add(type(chosen).__name__)
        assert np.isfinite(drawn(pipe, chosen)).all()
    from diffusers.schedulers import KarrasDiffusionSchedulers

    interchangeable = {entry.name for entry in KarrasDiffusionSchedulers}
    # the first needs torchsde and draws its noise from no seed, the second is trained with other noise levels
    assert accepted == interchangeable - {"DPMSolverSDEScheduler", "EDMEulerScheduler"}


@pytest.mark.parametrize("arguments", [("plan",), ("--stage", "generate")])
def test_a_scheduler_is_refused_before_anything_is_written(arguments, saved, copy, tmp_path, capsys):
    line = refused(saved(), tmp_path, capsys, *arguments, "--scheduler", "DDIMInverseScheduler")
    assert "unipc, which diffusers exchanges for DDIMScheduler, got 'DDIMInverseScheduler': choose" in line
    line = refused(saved(), tmp_path, capsys, *arguments, "--scheduler", "lcm")
    assert line.startswith("--scheduler: expected one of ddim")
    change(copy, "scheduler/scheduler_config.json", num_train_timesteps=100)
    line = refused(copy, tmp_path, capsys, *arguments, "--steps", "101")
    assert line.startswith("--steps: expected what DDIMScheduler can do, got 101")
    change(copy, INDEX, scheduler=["diffusers", "FlowMatchEulerDiscreteScheduler"])
    line = refused(copy, tmp_path, capsys, *arguments)
    assert f"model {copy}: scheduler/scheduler_config.json: expected a scheduler that can drive" in line
