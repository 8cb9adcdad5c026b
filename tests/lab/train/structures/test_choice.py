"""The direction that chooses: what it is fitted to, and that it tells the components."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from lab.train.structures.choice import fit, main, states, told
from probes.models import loading
from probes.toyworld import CHOICES, LOCATED, bundled_folder
from probes.toyworld.noised import renderings
from probes.toyworld.structures.truth import choices

TEXTS = ["a person in the park", "a person with a dog"]


@pytest.fixture(scope="module")
def pipe():
    return loading.load(loading.resolve(LOCATED[0]), device="cpu").pipe


def test_a_fit_is_the_discriminant_of_two_normal_components():
    rng, component = np.random.default_rng(0), np.repeat([0.0, 1.0], 20_000)
    root = rng.normal(size=(5, 5))
    apart = rng.normal(size=5)
    values = rng.normal(size=(len(component), 5)) @ root.T + np.outer(component, apart)
    parts = fit(values, component)
    expected = np.linalg.solve(root @ root.T, apart)  # Fisher's: inverse covariance times difference of means
    found = parts["direction"].double().numpy()
    assert found @ expected / np.linalg.norm(found) / np.linalg.norm(expected) > 0.999
    assert float(parts["offset"]) == pytest.approx(-found @ apart / 2, abs=0.05 * abs(found @ apart))


def test_states_are_means_of_what_the_self_attention_is_given(pipe):
    place, seen = choices()[CHOICES[0]].places[0], []
    values, component, prompt, times = states(pipe, place, TEXTS, 1, 2, 7)
    assert values.shape == (8, 96) and component.tolist() == [0, 1] * 4
    assert prompt.tolist() == [0, 0, 1, 1] * 2
    random = torch.Generator().manual_seed(7)
    clean = torch.from_numpy(renderings(pipe, TEXTS, 1, seed=7).latents)
    when = torch.randint(0, 1000, (4,), generator=random)
    noise = torch.randn(clean.shape, generator=random)
    share = pipe.scheduler.alphas_cumprod[when][:, None, None, None]
    attention = pipe.unet.get_submodule(f"{place.block}.attn1")
    handle = attention.register_forward_pre_hook(lambda module, args: seen.append(args[0]))
    encoded = pipe.text_encoder(
        pipe.tokenizer(TEXTS, padding="max_length", return_tensors="pt").input_ids
    ).last_hidden_state
    with torch.no_grad():
        noisy = share.sqrt() * clean + (1 - share).sqrt() * noise
        pipe.unet(noisy, when, encoded[[0, 0, 1, 1]])
    handle.remove()
    assert times[:4].tolist() == when.tolist()
    np.testing.assert_allclose(values[:4], seen[0].mean(1).numpy(), atol=1e-4)


def test_how_well_it_tells_is_by_range_of_timesteps():
    values = np.array([[0.0], [1], [1], [0]])
    parts = {"direction": torch.ones(1).half(), "offset": torch.zeros(1).half()}
    component, times = np.array([0.0, 1, 0, 1] * 5), np.repeat([50, 250, 450, 650, 850], 4)
    found = told(parts, np.tile(values, (5, 1)), component, times)
    assert set(found.values()) == {0.5} and len(found) == 5
    assert told(parts, component[:, None], component, times)["0-200"] == 1


def test_the_command_writes_what_the_model_is_made_of(tmp_path):
    assert main(["--prompts", "4", "--renderings", "1", "--rounds", "20", "--out", str(tmp_path)]) == 0
    found = load_file(tmp_path / "delta.safetensors")
    assert {name: (part.dtype, tuple(part.shape)) for name, part in found.items()} == {
        "direction": (torch.float16, (96,)),
        "offset": (torch.float16, (1,)),
    }
    stored = json.loads((bundled_folder(CHOICES[0]) / "recipe.json").read_text())
    assert set(json.loads((tmp_path / "recipe.json").read_text())) == set(stored)
    auc = list(stored["auc_held_out"].values())
    assert auc == sorted(auc, reverse=True) and auc[0] > 0.85 and abs(auc[-1] - 0.5) < 0.1


@pytest.mark.lab
def test_the_stored_direction_is_what_the_recipe_gives(tmp_path):
    assert main(["--out", str(tmp_path)]) == 0
    found, stored = (
        load_file(folder / "delta.safetensors") for folder in (tmp_path, bundled_folder(CHOICES[0]))
    )
    for name in stored:
        torch.testing.assert_close(found[name], stored[name], rtol=1e-2, atol=1e-2)
