"""Every way of drawing that is supported: exact probabilities of the prompts' rows, and the same image.

In each case the probe keeps every call, layer and head apart, and is compared with probabilities that
diffusers' own `get_attention_scores` gives on a run without the probe.
"""

import accelerate
import numpy as np
import pytest
import torch
from diffusers import (
    EulerDiscreteScheduler,
    HeunDiscreteScheduler,
    PNDMScheduler,
    StableDiffusionAdapterPipeline,
    StableDiffusionImg2ImgPipeline,
    StableDiffusionInpaintPipeline,
    StableDiffusionInstructPix2PixPipeline,
    StableDiffusionXLAdapterPipeline,
    StableDiffusionXLImg2ImgPipeline,
    StableDiffusionXLInpaintPipeline,
    T2IAdapter,
    UniPCMultistepScheduler,
)
from diffusers.models.attention_processor import Attention, AttnProcessor2_0, IPAdapterAttnProcessor2_0

from hooks import HookError, Probe
from hooks.sites import attention_sites, module_at
from tests.hooks.conftest import PROMPTS, draw, recorded_steps
from tests.hooks.oracle import recorded
from tests.tiny import tiny_components, tiny_pipeline

EVERYTHING = {"word_maps": True, "layer_maps": 99, "map_tokens": "all"}


def picture(size, rows=2):
    return torch.rand(rows, 3, size, size, generator=torch.Generator().manual_seed(0))


def check(pipe, prompt=PROMPTS[:2], branch=(1, 2), atol=1e-5, **call):
    """Draw with and without, and compare; `branch` is the prompts' place among the guidance's branches."""
    call = {"num_inference_steps": 2, **call}
    without = draw(pipe, prompt, **call)
    with Probe(pipe, sites="latent", **EVERYTHING) as probe:
        images = draw(pipe, prompt, **call)
    assert np.array_equal(images, without), "bit for bit the same image"
    expected = recorded(pipe, lambda: draw(pipe, prompt, **call))
    assert set(probe.layer_maps.layers) == set(expected)
    for address, found in probe.layer_maps.values.items():
        calls, index, branches = len(expected[address]), *branch
        rows = expected[address].shape[1] // branches
        right = expected[address][:, index * rows : (index + 1) * rows].transpose(0, 1).mean(2)
        found = torch.from_numpy(found).flatten(3).mT  # (rows, calls, pixels, tokens)
        assert found.dtype == torch.float32
        torch.testing.assert_close(found, right, rtol=0, atol=atol, msg=lambda m, a=address: f"{a}: {m}")
        torch.testing.assert_close(found.sum(-1), torch.ones(found.shape[:-1]), rtol=0, atol=1e-5)
    assert probe.layer_maps.calls == (1,) * calls
    return probe, images


@pytest.mark.parametrize(
    "kind", ["sdxl", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("sd1", "sd2"))]
)
def test_architectures(pipelines, kind):
    check(pipelines(kind))


@pytest.mark.parametrize(
    "call",
    [
        # a latent of 18x10 is halved to 9x5 and 5x3
        {"negative_prompt": ["a red car", "dog"], "height": 72, "width": 40, "guidance_rescale": 0.7},
        # longer than the tokenizer takes
        {"prompt": ["umbrella " * 60, "a guitar"], "num_images_per_prompt": 2},
    ],
    ids=["sizes", "images"],
)
def test_ways_to_call(toy, call):
    check(toy, **call)


@pytest.mark.parametrize(
    ("kind", "pipeline_class"),
    [("sd1", StableDiffusionImg2ImgPipeline), ("sdxl", StableDiffusionXLImg2ImgPipeline)],
)
def test_image_to_image(kind, pipeline_class):
    pipe = tiny_pipeline(kind, pipeline_class=pipeline_class)
    probe, _ = check(pipe, image=picture(32), strength=0.5, num_inference_steps=4)
    assert len(probe.layer_maps.calls) == {"sd1": 3, "sdxl": 2}[kind]  # PNDM takes one step twice


@pytest.mark.parametrize(
    ("kind", "channels", "beside"),
    [
        ("toy", [16, 32, 32], {"safety_checker": None, "feature_extractor": None}),
        ("sdxl", [8, 16, 16], {}),
    ],
)
def test_adapters(kind, channels, beside, monkeypatch):
    """A T2I-Adapter adds to the U-Net's residuals, and to no attention."""
    monkeypatch.setitem(EVERYTHING, "layer_maps", 1)  # these pipelines plan no number of calls
    xl = "_xl" if kind == "sdxl" else ""
    adapter = T2IAdapter(
        channels=channels, num_res_blocks=1, downscale_factor=4, adapter_type=f"full_adapter{xl}"
    )
    cls = StableDiffusionXLAdapterPipeline if xl else StableDiffusionAdapterPipeline
    pipe, size = cls(**tiny_components(kind), **beside, adapter=adapter.eval()), 32 if xl else 64
    given = {"height": size, "width": size, "num_inference_steps": 1, "guidance_scale": 4.0}
    _, images = check(pipe, image=picture(size), **given)
    assert not np.array_equal(images, draw(pipe, PROMPTS[:2], image=0 * picture(size), **given))


@pytest.mark.parametrize(("kind", "in_channels"), [("toy", 9), ("sdxl", 4)])
def test_inpainting(kind, in_channels):
    classes = {"toy": StableDiffusionInpaintPipeline, "sdxl": StableDiffusionXLInpaintPipeline}
    pipe = tiny_pipeline(kind, pipeline_class=classes[kind], unet={"in_channels": in_channels})
    size = 64 if kind == "toy" else 32
    hole = torch.ones(2, 1, size, size).tril()
    check(pipe, image=picture(size), mask_image=hole, height=size, width=size, strength=1.0)


def test_instruct_pix2pix(monkeypatch):
    """Three branches, the prompts' first."""
    pipe = tiny_pipeline(
        "toy", pipeline_class=StableDiffusionInstructPix2PixPipeline, unet={"in_channels": 8}
    )
    call = {
        "image": picture(64),
        "guidance_scale": 4.0,
        "image_guidance_scale": 1.5,
        "negative_prompt": ["a red car", "dog"],
        "num_inference_steps": 2,
    }
    check(pipe, branch=(0, 3), **call)
    given = recorded_steps(pipe, monkeypatch)
    with Probe(pipe, keep=["noise_pred.*", "x0_pred", "latent", "text.layers.0"]) as probe:
        draw(pipe, PROMPTS[:2], **call)
    kept = probe.kept
    assert torch.equal(kept["noise_pred.guided"].values, torch.stack([output for output, _ in given]))
    torch.testing.assert_close(
        kept["x0_pred"].values, torch.stack([x0 for _, x0 in given]), rtol=1e-4, atol=1e-4
    )
    assert kept["latent"].values.shape == (2, 2, 4, 16, 16)
    assert len(kept["noise_pred.image"].call) == 2
    assert not torch.equal(kept["noise_pred.image"].values, kept["noise_pred.unconditional"].values)
    encoder_ids = pipe.tokenizer(PROMPTS[:2], padding="max_length", return_tensors="pt").input_ids
    states = pipe.text_encoder(encoder_ids, output_hidden_states=True).hidden_states
    torch.testing.assert_close(kept["text.layers.0"].values[0], states[1], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("kind", "unfused_again"), [("sdxl", False), ("toy", True)])
def test_fused_projections(kind, unfused_again):
    pipe = tiny_pipeline(kind)
    with Probe(pipe, word_maps=True) as plain:
        draw(pipe, PROMPTS[:2], num_inference_steps=2)
    pipe.fuse_qkv_projections()
    if unfused_again:
        pipe.unfuse_qkv_projections()
    check(pipe)
    with Probe(pipe, word_maps=True) as probe:
        draw(pipe, PROMPTS[:2], num_inference_steps=2)
    np.testing.assert_allclose(probe.maps.values, plain.maps.values, atol=1e-4)


@pytest.mark.parametrize(
    "scheduler",
    [
        PNDMScheduler,
        HeunDiscreteScheduler,
        pytest.param(UniPCMultistepScheduler, marks=pytest.mark.slow),
    ],
)
def test_schedulers(scheduler):
    pipe = tiny_pipeline("toy", prediction_type="epsilon")
    settings = {"skip_prk_steps": True} if scheduler is PNDMScheduler else {}
    pipe.scheduler = scheduler.from_config(pipe.scheduler.config, **settings)
    probe, _ = check(pipe, num_inference_steps=3)
    calls = {"PNDMScheduler": 4, "HeunDiscreteScheduler": 5}
    assert len(probe.layer_maps.calls) == calls.get(scheduler.__name__, 3)


@pytest.mark.usefixtures("bfloat16_attention")
def test_bfloat16(device):
    check(tiny_pipeline("toy").to(device, torch.bfloat16), atol=0.02)


def test_float16(device):
    if device == "cpu":
        pytest.skip("float16 is drawn on a GPU: set TRIPTYCH_TEST_DEVICE=cuda")
    check(tiny_pipeline("toy").to(device, torch.float16), atol=0.005)


@pytest.mark.usefixtures("bfloat16_attention")
def test_half_precision_is_multiplied_in_single(device):
    """Against the softmax, in float64, of the very queries and keys that were read."""
    pipe = tiny_pipeline("toy").to(device, torch.bfloat16)
    layer = "unet.mid.attn.0.cross"
    with Probe(pipe, keep=f"{layer}.*", **EVERYTHING) as probe:
        draw(pipe, PROMPTS[:1], num_inference_steps=1)
    heads = probe.layer_maps.heads[layer]
    query, key = (probe.kept[f"{layer}.{name}"].values[0, 0].double() for name in ("query", "key"))
    query, key = (tensor.unflatten(1, (heads, -1)).transpose(0, 1) for tensor in (query, key))
    expected = (query @ key.mT / query.shape[-1] ** 0.5).softmax(-1).mean(0)
    found = torch.from_numpy(probe.layer_maps.values[layer][0, 0]).flatten(1).mT
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-6)


def test_attention_slicing():
    pipe = tiny_pipeline("toy")
    pipe.enable_attention_slicing(1)
    check(pipe)


def test_offloaded_weights():
    pipe = tiny_pipeline("toy")
    without = draw(pipe, PROMPTS[:2])
    for part in (pipe.text_encoder, pipe.unet, pipe.vae):
        accelerate.cpu_offload(part, execution_device=torch.device("cpu"))
    assert next(pipe.unet.parameters()).device.type == "meta", "the weights are elsewhere"
    _, images = check(pipe, num_inference_steps=3)
    assert np.array_equal(images, without)
    with Probe(pipe, pairs=[(0, 1)], keep="+text.layers.0*", word_maps=True) as probe:
        assert np.array_equal(draw(pipe, PROMPTS[:2]), without)
    assert np.isfinite(probe.similarity["text.layers.0:cosine_eos"].values).all()


def test_tokens_masked_in_attention_are_refused(toy):
    with (
        pytest.raises(HookError, match="masks tokens in attention"),
        Probe(toy, word_maps=True),
        torch.no_grad(),
    ):
        toy.unet(
            torch.zeros(2, 4, 16, 16), 1, torch.zeros(2, 32, 32), encoder_attention_mask=torch.ones(2, 32)
        )


class WithoutItsBeginning(AttnProcessor2_0):
    """A processor of one's own, derived from diffusers': the first word is looked at by nobody."""

    def __call__(self, attn, hidden_states, encoder_hidden_states=None, **kwargs):
        return super().__call__(attn, hidden_states, encoder_hidden_states[:, 2:], **kwargs)


def test_only_diffusers_own_attention_passes():
    pipe = tiny_pipeline("sdxl")
    blocks = pipe.unet.mid_block.attentions[0].transformer_blocks
    blocks[0].attn2.processor = WithoutItsBeginning()
    message = (
        r"unet\.mid\.attn\.0\.cross(\.0)?: .* got WithoutItsBeginning, which may weigh tokens otherwise: call"
    )
    with pytest.raises(HookError, match=message), Probe(pipe, word_maps=True):
        draw(pipe)
    pipe.unet.set_attn_processor(AttnProcessor2_0())  # the remedy
    check(pipe)
    blocks[0].attn2.__class__ = type("Mine", (Attention,), {"__module__": "mine"})
    with pytest.raises(HookError, match="got Mine, which may"), Probe(pipe, word_maps=True):
        draw(pipe)
    blocks[0].attn2.processor = IPAdapterAttnProcessor2_0(16, 40)
    with pytest.raises(HookError, match=r": call pipe\.unload_ip_adapter\(\)"), Probe(pipe, word_maps=True):
        draw(pipe)


class Wrapped(torch.nn.Module):
    """What peft puts in the place of a layer when a LoRA is loaded."""

    def __init__(self, base_layer):
        super().__init__()
        self.base_layer = base_layer

    def forward(self, x):
        return self.base_layer(x) + 1


def with_lora(pipe):
    for path in (site.module for site in attention_sites(pipe, "cross")):
        module_at(pipe, path).to_q = Wrapped(module_at(pipe, path).to_q)


CHANGES = {
    r"unet\.\S*\.to_q to stay what it was .* do that before the block": with_lora,
    r"unet\.\S*\.processor to stay": lambda pipe: pipe.unet.set_attn_processor(WithoutItsBeginning()),
    r"unet\.\S*\.processor to stay what": lambda pipe: pipe.enable_attention_slicing(),
    r"scheduler to stay": lambda pipe: setattr(
        pipe, "scheduler", EulerDiscreteScheduler.from_config(pipe.scheduler.config)
    ),
}


@pytest.mark.parametrize("message", CHANGES)
def test_what_is_changed_inside_the_block_is_not_read_as_it_was(message):
    pipe = tiny_pipeline("toy")
    with pytest.raises(HookError, match=message), Probe(pipe, keep="unet.mid", word_maps=True):
        CHANGES[message](pipe)
        draw(pipe, num_inference_steps=1)
