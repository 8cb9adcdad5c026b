"""What each site gives, against computations that know nothing of the probe."""

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cosine as scipy_cosine

from hooks import Probe, sites
from tests.hooks.conftest import PROMPTS, draw
from tests.tiny import KINDS, tiny_pipeline

PAIRS = [(0, 1), (0, 2), (1, 2)]


def cosines(values, pairs=PAIRS):
    """Of rows of (rows, ...), in float64 by SciPy."""
    flat = values.double().flatten(1).numpy()
    return [1 - scipy_cosine(flat[i], flat[j]) for i, j in pairs]


@pytest.mark.parametrize("kind", KINDS)
def test_similarities_are_those_of_what_is_kept(pipelines, kind):
    pipe = pipelines(kind)
    with Probe(pipe, pairs=PAIRS, keep="*") as probe:
        draw(pipe)
    default = [site for site in sites.available(pipe) if site.default]
    assert list(probe.kept) == [site.address for site in default]
    raw = [site.address for site in default if not site.layer_norm]  # others are compared behind the norm
    for address, kept in ((address, probe.kept[address]) for address in raw):
        metric = "cosine_sequence" if address.startswith("text") else "cosine"
        similarity = probe.similarity[f"{address}:{metric}"]
        assert kept.values.dtype == torch.float32
        assert kept.call.tolist() == similarity.call.tolist()
        expected = np.reshape([cosines(values) for values in kept.values], (-1, len(PAIRS)))
        np.testing.assert_allclose(similarity.values, expected, atol=2e-6, err_msg=address)


def test_unet_sites_are_the_outputs_of_the_conditional_rows(toy):
    """The UNet is called again, alone, on conditional rows only; plain hooks read its blocks."""
    wanted = sites.resolve(toy, "unet.*")
    with Probe(toy, keep=["unet.*", "latent", "text.final", "noise_pred.*"]) as probe:
        draw(toy)
    kept = probe.kept
    for step, timestep in enumerate(toy.scheduler.timesteps):
        outputs, handles = {}, []
        for site in wanted:
            path = site.module.removeprefix("unet.")

            def save(module, args, output, address=site.address, outputs=outputs):
                outputs[address] = output if isinstance(output, torch.Tensor) else output[0]

            handles.append(toy.unet.get_submodule(path).register_forward_hook(save))
        with torch.no_grad():
            alone = toy.unet(
                kept["latent"].values[step],
                timestep,
                encoder_hidden_states=kept["text.final"].values[0],
            ).sample
        for handle in handles:
            handle.remove()
        for address, output in outputs.items():
            torch.testing.assert_close(kept[address].values[step], output, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(kept["noise_pred.conditional"].values[step], alone, rtol=1e-4, atol=1e-4)
    assert len(outputs) == len(wanted)


@pytest.mark.parametrize("kind", KINDS)
def test_latents_are_the_pipelines(pipelines, kind):
    pipe = pipelines(kind)
    after_steps = []

    def keep(pipe, step, timestep, kwargs):
        after_steps.append(kwargs["latents"].clone())
        return kwargs

    with Probe(pipe, keep=["latent", "latent.final"]) as probe:
        draw(pipe, callback_on_step_end=keep)
    latent, final = probe.kept["latent"], probe.kept["latent.final"]
    assert torch.equal(latent.values[1:], torch.stack(after_steps[:-1]))
    assert torch.equal(latent.values[0, 0], latent.values[0, 1]), "one seed for all rows"
    assert final.values.shape == (1, 3, 4, 16, 16)
    torch.testing.assert_close(final.values[0], after_steps[-1], rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(latent.timestep, [float(t) for t in pipe.scheduler.timesteps])


def test_the_image_and_the_decoder(toy):
    with Probe(toy, keep=["vae.*", "image", "latent.final"]) as probe:
        images = draw(toy)
    kept = {address: kept.values[0] for address, kept in probe.kept.items()}
    shown = (kept["image"] / 2 + 0.5).clamp(0, 1).permute(0, 2, 3, 1).numpy()
    np.testing.assert_allclose(shown, images, atol=1e-6)
    z = kept["latent.final"] / toy.vae.config.scaling_factor
    with torch.no_grad():
        given = toy.vae.post_quant_conv(z)
        mid = toy.vae.decoder.mid_block(toy.vae.decoder.conv_in(given))
    torch.testing.assert_close(kept["vae.post_quant"], given, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(kept["vae.decoder.mid"], mid, rtol=1e-4, atol=1e-4)
    assert kept["vae.decoder.up.2"].shape[-2:] == (64, 64)


def test_sdxl_latents_with_mean_and_deviation():
    statistics = {"latents_mean": [0.1, -0.2, 0.3, 0.4], "latents_std": [0.5, 1.5, 2.0, 0.8]}
    pipe = tiny_pipeline("sdxl")
    pipe.vae.register_to_config(**statistics)
    with Probe(pipe, keep="latent.final") as probe:
        draw(pipe)
    latents = draw(pipe, output_type="latent")
    torch.testing.assert_close(probe.kept["latent.final"].values[0], latents, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", ["toy", "sdxl"])
def test_rows_of_images_per_prompt(pipelines, kind):
    """Two images a prompt: rows are p0, p0, p1, p1. Pairs name images; text compares their prompts."""
    pipe = pipelines(kind)
    call = {"num_images_per_prompt": 2, "generator": [torch.Generator().manual_seed(s) for s in (1, 2, 1, 2)]}
    with Probe(pipe, pairs=[(0, 2), (0, 1), (1, 3)], keep=["latent", "text*"]) as probe:
        draw(pipe, PROMPTS[:2], **call)
    latent = probe.similarity["latent:cosine"].values[0]
    assert latent[[0, 2]] == pytest.approx([1.0, 1.0], abs=1e-6), "the same noise"
    assert abs(latent[1]) < 0.2, "other noise"
    with Probe(pipe, pairs=[(0, 1)]) as single:
        draw(pipe, PROMPTS[:2])
    for key, similarity in probe.similarity.items():
        if key.startswith("text"):
            expected = single.similarity[key].values[0, 0]
            np.testing.assert_allclose(
                similarity.values[0], [expected, 1.0, expected], atol=1e-5, err_msg=key
            )
    assert len(probe.kept["text.layers.0"].values[0]) == 2
    assert len(probe.kept["text.final"].values[0]) == 4
