"""The direction that chooses in the transformer: what it is fitted to, and how well it tells the components."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from lab.train.dit.choice import MODEL, main, states
from probes.models import loading
from probes.toyworld import TRANSFORMERS, bundled_folder
from probes.toyworld.noised import renderings

TEXTS = ["a person in the park", "a person with a dog"]


def test_states_are_means_of_what_the_block_is_given_normalised():
    pipe = loading.load(loading.resolve(TRANSFORMERS[0]), device="cpu").pipe
    values, component, prompt, times = states(pipe, 1, TEXTS, 1, 2, 7)
    assert values.shape == (8, 128) and component.tolist() == [0, 1] * 4
    assert prompt.tolist() == [0, 0, 1, 1] * 2
    random, seen = torch.Generator().manual_seed(7), []
    clean = torch.from_numpy(renderings(pipe, TEXTS, 1, seed=7).latents)
    share = torch.rand(4, generator=random)
    noisy = pipe.scheduler.scale_noise  # diffusers' own interpolation, at a step of its table
    noise = torch.randn(clean.shape, generator=random)
    pipe.scheduler.set_timesteps(10)
    steps = pipe.scheduler.timesteps[:4]
    mixed = [
        noisy(one[None], when[None], some[None]) for one, when, some in zip(clean, steps, noise, strict=True)
    ]
    torch.testing.assert_close(
        torch.cat(mixed),
        torch.stack([(1 - t / 1000) * x + t / 1000 * e for x, t, e in zip(clean, steps, noise)]),
    )
    handle = pipe.transformer.transformer_blocks[0].register_forward_hook(
        lambda module, args, output: seen.append(output[1])
    )
    text, _, pooled, _ = pipe.encode_prompt(TEXTS, None, None, do_classifier_free_guidance=False)
    ratio = share[:, None, None, None]
    with torch.no_grad():
        pipe.transformer(
            (1 - ratio) * clean + ratio * noise,
            encoder_hidden_states=text[[0, 0, 1, 1]],
            pooled_projections=pooled[[0, 0, 1, 1]],
            timestep=1000 * share,
        )
    handle.remove()
    np.testing.assert_allclose(times[:4], 1000 * share.numpy(), rtol=1e-6)
    image = seen[0].numpy().astype(float)
    expected = ((image - image.mean(2, keepdims=True)) / image.std(2, keepdims=True)).mean(1)
    np.testing.assert_allclose(values[:4], expected, atol=1e-4)


def test_the_command_writes_what_the_model_is_made_of(tmp_path):
    assert main(["--prompts", "4", "--renderings", "1", "--rounds", "20", "--out", str(tmp_path)]) == 0
    found = load_file(tmp_path / "delta.safetensors")
    assert {name: (part.dtype, tuple(part.shape)) for name, part in found.items()} == {
        "direction": (torch.float16, (128,)),
        "offset": (torch.float16, (1,)),
    }
    stored = json.loads((bundled_folder(MODEL) / "recipe.json").read_text())
    assert set(json.loads((tmp_path / "recipe.json").read_text())) == set(stored)
    auc = list(stored["auc_held_out"].values())
    assert min(auc[:3]) > 0.8 and auc[2] > auc[3] > auc[4] > 0.5


@pytest.mark.lab
def test_the_stored_direction_is_what_the_recipe_gives(tmp_path):
    assert main(["--out", str(tmp_path)]) == 0
    found, stored = (load_file(folder / "delta.safetensors") for folder in (tmp_path, bundled_folder(MODEL)))
    for name in stored:
        torch.testing.assert_close(found[name], stored[name], rtol=1e-2, atol=1e-2)
