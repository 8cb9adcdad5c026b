"""Files of sparse autoencoders: what was written is read, as others write it, and what is not is refused by name."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from probes.errors import UserError
from probes.models.autoencoders import CONFIG, WEIGHTS, load_autoencoder
from tests.evil_models import Payload

WIDTH, LATENTS = 6, 10


def weights(seed=0):
    random = torch.Generator().manual_seed(seed)
    shapes = {"W_enc": (WIDTH, LATENTS), "b_enc": (LATENTS,), "W_dec": (LATENTS, WIDTH), "b_dec": (WIDTH,)}
    return {name: torch.randn(shape, generator=random) for name, shape in shapes.items()}


def published(folder, config, **more):
    """A folder as SAELens 6 writes it, with some fields put over it."""
    folder.mkdir(exist_ok=True)
    made = {
        "architecture": "topk",
        "k": 3,
        "d_in": WIDTH,
        "d_sae": LATENTS,
        "apply_b_dec_to_input": True,
        "normalize_activations": "none",
        "metadata": {"sae_lens_version": "6.21.0", "hook_name": "unet.mid"},
    } | config
    save_file(weights() | more, folder / WEIGHTS)
    (folder / CONFIG).write_text(json.dumps({k: v for k, v in made.items() if v is not None}))
    return folder


def forward(x, config, weights):
    """Latents and vectors of a file of SAELens, by NumPy."""
    w = {name: tensor.numpy().astype(float) for name, tensor in weights.items()}
    before = (x - w["b_dec"] * config.get("apply_b_dec_to_input", True)) @ w["W_enc"] + w["b_enc"]
    norm = np.linalg.norm(w["W_dec"], axis=1) if config.get("rescale_acts_by_decoder_norm") else 1.0
    before = before * norm
    latents = np.maximum(before, 0)
    if "threshold" in w:
        latents[before <= w["threshold"]] = 0
    k = config.get("k") or config.get("activation_fn_kwargs", {}).get("k")
    if k:
        for row, values in zip(latents, before):
            row[np.argsort(values)[:-k]] = 0
    return latents, (latents / norm) @ w["W_dec"] + w["b_dec"]


LAYOUTS = {
    "topk": {},
    "scaled by the decoder's norm": {"rescale_acts_by_decoder_norm": True},
    "bias is kept": {"apply_b_dec_to_input": False},
    "standard": {"architecture": "standard", "k": None},
    "jumprelu": {"architecture": "jumprelu", "k": None},
    "topk before version 6": {
        "architecture": "standard",
        "k": None,
        "activation_fn_str": "topk",
        "activation_fn_kwargs": {"k": 2},
        "metadata": None,
        "hook_name": "unet.mid",
        "normalize_activations": False,
    },
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_published_layouts_by_numpy(layout, tmp_path):
    config = {"k": 3} | LAYOUTS[layout]
    more = {"threshold": torch.linspace(0, 2, LATENTS)} if layout == "jumprelu" else {}
    one = load_autoencoder(published(tmp_path / "sae", config, **more))
    assert one.site == "unet.mid"
    x = np.random.default_rng(0).normal(size=(40, WIDTH))
    latents, decoded = forward(x, config, weights() | more)
    found = one.encode(torch.from_numpy(x).float())
    np.testing.assert_allclose(found, latents, atol=1e-4)
    np.testing.assert_allclose(one.decode(found), decoded, atol=1e-4)


def test_the_layout_of_surkov(tmp_path):
    """Encoder and decoder as `torch.nn.Linear` holds them."""
    given = weights()
    state = {
        "encoder.weight": given["W_enc"].T.contiguous(),
        "decoder.weight": given["W_dec"].T.contiguous(),
        "pre_bias": given["b_dec"],
        "latent_bias": given["b_enc"],
        "stats_last_nonzero": torch.zeros(LATENTS, dtype=torch.long),
    }
    torch.save({"state_dict": state}, tmp_path / "state_dict.pth")
    config = {"n_dirs_local": LATENTS, "d_model": WIDTH, "k": 3, "auxk": 256, "dead_steps_threshold": 2441}
    (tmp_path / "config.json").write_text(json.dumps(config))
    one = load_autoencoder(tmp_path)
    x = np.random.default_rng(0).normal(size=(40, WIDTH))
    linear = torch.nn.Linear(WIDTH, LATENTS, bias=False)
    linear.weight.data = state["encoder.weight"]
    with torch.no_grad():
        before = linear(torch.from_numpy(x).float() - state["pre_bias"]) + state["latent_bias"]
    values, numbers = before.topk(3)
    expected = torch.zeros_like(before).scatter(-1, numbers, values.relu())
    np.testing.assert_allclose(one.encode(torch.from_numpy(x).float()), expected, atol=1e-6)
    np.testing.assert_allclose(
        one.decode(expected), expected @ state["decoder.weight"].T + state["pre_bias"], atol=1e-5
    )


def broken(folder, name, data):
    published(folder, {})
    (folder / name).write_bytes(data)
    return folder


WRONG = {
    "no folder": (
        lambda path: path,
        r"sae: expected a sparse autoencoder \(sae_weights\.safetensors and cfg",
    ),
    "no weights": (
        lambda path: (published(path, {}) and (path / WEIGHTS).unlink()) or path,
        r"sae: expected sae_weights\.safetensors beside its configuration, found none: name the folder",
    ),
    "no JSON": (lambda path: broken(path, CONFIG, b"{"), r"cfg\.json: expected JSON, got"),
    "gated": (
        lambda path: published(path, {"architecture": "gated"}),
        r"cfg\.json: architecture: expected one of standard, topk, jumprelu, got 'gated'",
    ),
    "normalised": (
        lambda path: published(path, {"normalize_activations": "layer_norm"}),
        "normalize_activations: expected none, got 'layer_norm'",
    ),
    "k beyond": (lambda path: published(path, {"k": 11}), "k: expected a number from 1 to 10, but got 11"),
    "no numbers": (
        lambda path: published(path, {}, b_dec=torch.full((WIDTH,), torch.nan)),
        "b_dec: expected finite numbers, got others",
    ),
    "shapes": (
        lambda path: published(path, {}, W_dec=torch.ones(3, 3)),
        r"decoder: expected shape \(10, 6\) beside an encoder of 6 x 10, but got \(3, 3\)",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_said_in_a_line(case, tmp_path):
    make, line = WRONG[case]
    folder = make(tmp_path / "sae")
    with pytest.raises(UserError, match=line) as caught:
        load_autoencoder(folder)
    assert "\n" not in str(caught.value)


def test_a_pickle_of_more_than_tensors_is_not_run(tmp_path):
    torch.save({"state_dict": Payload(tmp_path / "harm")}, tmp_path / "state_dict.pth")
    (tmp_path / "config.json").write_text('{"k": 3}')
    with pytest.raises(UserError, match="a pickle of more than plain tensors, which is not run"):
        load_autoencoder(tmp_path)
    assert not (tmp_path / "harm").exists()
