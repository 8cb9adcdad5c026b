"""What is put into a model: LoRAs, words, a decoder, quantized weights; against diffusers' own and an eager softmax."""

import functools
import importlib.util
import json
import shutil

import numpy as np
import pytest
import torch
from peft import LoraConfig
from peft.utils import get_peft_model_state_dict
from safetensors.torch import save_file

from hooks import Probe
from probes.errors import UserError
from probes.models import additions, loading
from probes.runs.images import eight_bits
from probes.runs.run import Run
from tests.hooks import transformers
from tests.hooks.attention.test_attention import daam_by_hand
from tests.hooks.attention.test_final import expected_maps
from tests.hooks.conftest import draw
from tests.probes.conftest import generated, settings
from tests.probes.models.model_faults import change, refused
from tests.tiny import KINDS, tiny_pipeline
from tests.tiny_transformers import call_options, tiny_transformer_pipeline

RUN = {"prompts": ["a {person} with a dog"], "seeds": [0], "generate": {"workers": 1}}
FILE, INT8 = (
    "pytorch_lora_weights.safetensors",
    {"quant_backend": "torchao", "quant_kwargs": {"quant_type": "Int8WeightOnlyConfig"}},
)


def tiny(kind, **options):
    return (tiny_pipeline if kind in KINDS else tiny_transformer_pipeline)(kind, **options)


def sampler(kind):
    size = {} if kind in KINDS else {name: call_options(kind)[name] for name in ("height", "width")}
    return {"steps": 2, "guidance_scale": 3.0, **size}


def save_lora(folder, kind, seed=0):
    """A LoRA of the attentions with random weights, as diffusers saves one."""
    pipe = tiny(kind)
    part = "unet" if hasattr(pipe, "unet") else "transformer"
    network, generator = getattr(pipe, part), torch.Generator().manual_seed(seed)
    network.add_adapter(LoraConfig(r=4, lora_alpha=8, target_modules=["to_q", "to_k", "to_v"]))
    for name, parameter in network.named_parameters():
        if "lora_" in name:
            parameter.data.copy_(0.3 * torch.randn(parameter.shape, generator=generator))
    type(pipe).save_lora_weights(folder, **{f"{part}_lora_layers": get_peft_model_state_dict(network)})
    return folder / FILE


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The folder of a saved tiny model, and a LoRA for it."""

    @functools.cache
    def get(kind):
        folder = tmp_path_factory.mktemp(kind)
        tiny(kind).save_pretrained(folder / "model")
        return folder / "model", save_lora(folder / "lora", kind)

    return get


def require_same_images(path, pipe, kind):
    """The images of a run are those of a pipeline of diffusers', which no probe reads, to the last bit."""
    run = Run.open(path)
    samples, call = run.samples(), dict(sampler(kind))
    noise = [torch.Generator().manual_seed(int(seed)) for seed in samples["noise_seed"]]
    call |= {"num_inference_steps": call.pop("steps"), "output_type": "np", "generator": noise}
    if kind == "qwen-image":  # whose guidance_scale is that of distilled models
        call |= {"true_cfg_scale": call.pop("guidance_scale"), "negative_prompt": [""] * len(samples)}
    images = pipe(list(samples["prompt"]), **call).images
    for name, image in zip(samples["sample_id"], images, strict=True):
        assert np.array_equal(np.asarray(run.image(name)), eight_bits(image))


def require_eager_maps(pipe, kind, monkeypatch):
    """Word maps of a loaded pipeline are made of the softmax of all its queries and keys; images stay what they are."""
    if kind in KINDS:
        bare = draw(pipe, guidance_scale=4.0)
        with Probe(pipe, word_maps=True, map_tokens="all") as probe:
            images = draw(pipe, guidance_scale=4.0)
        expected = daam_by_hand(pipe, (16, 16), 2, guidance_scale=4.0)
        np.testing.assert_allclose(probe.maps.values, expected, rtol=1e-4, atol=1e-6)
    else:
        entries = transformers.heard(pipe, lambda: transformers.draw(pipe, kind), monkeypatch)
        bare = transformers.draw(pipe, kind)
        with Probe(pipe, word_maps="joint-mass", prompts=transformers.PROMPTS) as probe:
            images = transformers.draw(pipe, kind)
        expected, _ = expected_maps(pipe, kind, probe, entries, "mass")
        np.testing.assert_allclose(probe.maps.values, expected, atol=1e-6, rtol=1e-4)
    assert np.array_equal(images, bare)


def of_diffusers(model, kind, lora=None, scale=1.0, **options):
    """The pipeline as diffusers itself loads it, with a LoRA."""
    pipe = type(tiny(kind)).from_pretrained(model, safety_checker=None, **options)
    pipe.set_progress_bar_config(disable=True)
    if lora is not None:
        pipe.load_lora_weights(lora.parent, weight_name=lora.name, adapter_name="style")
        pipe.set_adapters(["style"], [scale])
    return pipe


@pytest.mark.parametrize(
    "kind",
    [
        "toy",
        "sdxl",
        "sd3",
        *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("flux-dev", "qwen-image")),
    ],
)
def test_a_lora(kind, made, tmp_path, monkeypatch):
    model, lora = made(kind)
    config = settings(model, **RUN, sampler=sampler(kind), lora=[{"path": str(lora), "scale": 0.5}])
    run = generated(tmp_path / "run", config)
    require_same_images(tmp_path / "run", of_diffusers(model, kind, lora, 0.5), kind)
    assert run.meta["model"]["added"]["lora[0]"].endswith("at scale 0.5")
    loaded = loading.load(loading.resolve_run(config), device="cpu", steps=2)
    require_eager_maps(loaded.pipe, kind, monkeypatch)
    # the same goes on, by another path, too; another file, another scale and none are other runs
    moved = tmp_path / "moved"
    shutil.copytree(lora.parent, moved)
    config = settings(model, **RUN, sampler=sampler(kind), lora=[{"path": str(moved), "scale": 0.5}])
    generated(tmp_path / "run", config)
    save_lora(tmp_path / "other", kind, seed=1)
    for other in ([], [{"path": str(lora), "scale": 0.4}], [{"path": str(tmp_path / "other"), "scale": 0.5}]):
        with pytest.raises(UserError, match=r"holds another run: model/lora\[0\] is"):
            generated(tmp_path / "run", settings(model, **RUN, sampler=sampler(kind), lora=other))


def test_two_loras_and_the_plan_that_names_them(made, tmp_path, capsys):
    from triptych.cli.main import main

    model, lora = made("toy")
    second = save_lora(tmp_path / "second", "toy", seed=1)
    entries = [{"path": str(lora)}, {"path": str(second.parent), "weight_name": FILE, "scale": -0.3}]
    generated(tmp_path / "run", settings(model, **RUN, sampler=sampler("toy"), lora=entries))
    pipe = of_diffusers(model, "toy", lora)
    pipe.load_lora_weights(second.parent, weight_name=FILE, adapter_name="second")
    pipe.set_adapters(["style", "second"], [1.0, -0.3])
    require_same_images(tmp_path / "run", pipe, "toy")
    file = tmp_path / "triplets.yaml"
    file.write_text(json.dumps({"model": str(model), "prompts": ["a {person}"], "lora": entries}))
    assert main(["plan", str(file)]) == 0
    said = capsys.readouterr().out
    assert f"  lora[0]: {FILE} " in said and "at scale -0.3\n" in said


def test_a_lora_of_the_hub_is_read_from_its_cache(made, cache, tmp_path):
    model, lora = made("toy")
    folder = cache / "models--jo--style"
    (folder / "snapshots/abc").mkdir(parents=True)
    (folder / "refs").mkdir()
    (folder / "refs/main").write_text("abc")
    shutil.copy(lora, folder / "snapshots/abc" / FILE)
    config = settings(model, **RUN, lora=[{"path": "jo/style"}])
    assert loading.resolve_run(config).added.loras == ((folder / "snapshots/abc" / FILE, 1.0),)


@pytest.mark.parametrize("kind", ["toy", "sdxl"])
def test_words_of_a_textual_inversion(kind, made, tmp_path):
    """Of one vector and of two, which the pipeline spells out; of XL for both text encoders."""
    model, _ = made(kind)
    pipe = of_diffusers(model, kind)
    widths = [
        tower.config.hidden_size
        for tower in (pipe.text_encoder, getattr(pipe, "text_encoder_2", None))
        if tower
    ]
    vectors = [torch.randn(2, width, generator=torch.Generator().manual_seed(0)) for width in widths]
    stored = {"<cat>": vectors[0]} if kind == "toy" else dict(zip(("clip_l", "clip_g"), vectors, strict=True))
    save_file(stored, tmp_path / "learned_embeds.safetensors")
    added = [{"path": str(tmp_path), "token": "<cat>"}]
    config = settings(
        model,
        **{**RUN, "prompts": ["a {person} with a <cat>"]},
        sampler=sampler(kind),
        textual_inversion=added,
    )
    run = generated(tmp_path / "run", config)
    for tower, vector in zip(("", "_2"), vectors, strict=False):
        parts = {name: getattr(pipe, f"{name}{tower}") for name in ("text_encoder", "tokenizer")}
        pipe.load_textual_inversion({"<cat>": vector}, token="<cat>", **parts)
    require_same_images(tmp_path / "run", pipe, kind)
    tokens = list(run.samples()["tokens"][0])
    assert tokens[-3:-1] == ["<cat>", "<cat>_1"]
    assert "cat" in set(run.read("words")["word"])


def test_another_decoder(made, tmp_path):
    model, _ = made("toy")
    tiny_pipeline("toy", seed=3).vae.save_pretrained(tmp_path / "vae")
    generated(tmp_path / "run", settings(model, **RUN, sampler=sampler("toy"), vae=str(tmp_path / "vae")))
    require_same_images(
        tmp_path / "run", of_diffusers(model, "toy", vae=tiny_pipeline("toy", seed=3).vae), "toy"
    )
    with pytest.raises(UserError, match="holds another run: model"):
        generated(tmp_path / "run", settings(model, **RUN, sampler=sampler("toy")))


def test_a_denoiser_in_gguf(made, tmp_path, monkeypatch):
    gguf = pytest.importorskip("gguf")
    from diffusers import FluxTransformer2DModel, GGUFQuantizationConfig

    model, _ = made("flux-dev")
    model = shutil.copytree(model, tmp_path / "model")
    writer = gguf.GGUFWriter(tmp_path / "Q8.gguf", arch="flux")
    for name, tensor in tiny("flux-dev").transformer.state_dict().items():
        kind = gguf.GGMLQuantizationType.Q8_0 if "attn" in name and tensor.ndim == 2 else None
        values = tensor.numpy() if kind is None else gguf.quants.quantize(tensor.numpy(), kind)
        writer.add_tensor(name, values, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    options = {"config": str(model), "subfolder": "transformer", "local_files_only": True}
    options |= {"quantization_config": GGUFQuantizationConfig(torch.float32), "torch_dtype": torch.float32}
    transformer = FluxTransformer2DModel.from_single_file(str(tmp_path / "Q8.gguf"), **options)
    pipe = of_diffusers(model, "flux-dev", transformer=transformer)
    for file in (model / "transformer").glob("*.safetensors"):
        file.unlink()  # it is not read
    config = settings(
        model,
        **RUN,
        sampler=sampler("flux-dev"),
        quantization={"quant_backend": "gguf", "file": str(tmp_path / "Q8.gguf")},
    )
    run = generated(tmp_path / "run", config)
    assert run.meta["model"]["quantized"] == {"transformer": "gguf"}
    require_same_images(tmp_path / "run", pipe, "flux-dev")
    loaded = loading.load(loading.resolve_run(config), device="cpu")
    require_eager_maps(loaded.pipe, "flux-dev", monkeypatch)


def test_weights_quantized_by_torchao(made, tmp_path, monkeypatch):
    pytest.importorskip("torchao")
    from diffusers import SD3Transformer2DModel, TorchAoConfig
    from torchao.quantization import Int8WeightOnlyConfig

    model, _ = made("sd3")
    fields = {
        **RUN,
        "sampler": sampler("sd3"),
        "quantization": {**INT8, "components_to_quantize": ["transformer"]},
    }
    config = settings(model, **fields)
    generated(tmp_path / "run", config)
    options = {"quantization_config": TorchAoConfig(Int8WeightOnlyConfig()), "torch_dtype": torch.float32}
    transformer = SD3Transformer2DModel.from_pretrained(model, subfolder="transformer", **options)
    require_same_images(tmp_path / "run", of_diffusers(model, "sd3", transformer=transformer), "sd3")
    loaded = loading.load(loading.resolve_run(config), device="cpu")
    require_eager_maps(loaded.pipe, "sd3", monkeypatch)
    # a folder of quantized weights needs no key (of version 1 torchao saves none)
    fields["quantization"] |= {"quant_kwargs": {**INT8["quant_kwargs"], "version": 2}}
    loaded = loading.load(loading.resolve_run(settings(model, **fields)), device="cpu")
    loaded.pipe.save_pretrained(tmp_path / "quantized")
    again = loading.load(loading.resolve(str(tmp_path / "quantized")), device="cpu").record
    assert again["weight_hash"] == loaded.record["weight_hash"] and again["quantized"] == {
        "transformer": "torchao"
    }
    with pytest.raises(
        UserError, match=r"quantization\.quant_kwargs: expected options of torchao, got `quant_type"
    ):
        additions.check(
            loading.resolve_run(settings(model, **RUN, quantization={"quant_backend": "torchao"})), "cpu"
        )


@pytest.mark.parametrize("offload", ["model", "group"])
def test_offloading_alters_no_image(offload, made):
    """With the CPU as both devices (which accelerate refuses of `sequential`); a run takes it with a GPU alone."""
    model, _ = made("toy")
    pipe = of_diffusers(model, "toy")
    before = draw(pipe)
    additions.save_memory(pipe, torch.device("cpu"), offload, [])
    with Probe(pipe, word_maps=True):
        assert np.array_equal(draw(pipe), before)
    assert (
        hasattr(pipe.unet.conv_in, "_diffusers_hook")
        if offload == "group"
        else hasattr(pipe.unet, "_hf_hook")
    )


ABSENT = "peft", "torchao", "bitsandbytes"
REFUSED = {
    "no such LoRA": (
        {"lora": [{"path": "none.safetensors"}]},
        "lora[0]: expected a file, a folder or a hub id",
    ),
    "a LoRA of another model": (
        {"lora": [{"path": "XL"}]},
        f"lora[0]: {FILE}: expected a LoRA for a StableDiffusionP",
    ),
    "a LoRA of another class": (
        {"lora": [{"path": "SD3"}]},
        f"lora[0]: {FILE}: expected a LoRA for a StableDiffusionP",
    ),
    "words of another model": (
        {"textual_inversion": [{"path": "WORDS"}]},
        "textual_inversion[0]: words.safetensors: ",
    ),
    "no peft": (
        {"lora": [{"path": "LORA"}]},
        "lora: expected the package peft, found none: pip",
    ),
    "no torchao": (
        {"quantization": INT8},
        "quantization: expected the package torchao, found none: pip install to",
    ),
    "two edits": (
        {"lora": [{"path": "LORA"}], "edit": {"kind": "shift", "direction": ["woman", "man"]}},
        "edit: expected plain weights, which are edited, got a LoRA beside them",
    ),
    "gguf without a file": (
        {"quantization": {"quant_backend": "gguf"}},
        "quantization.file: expected the .gguf file",
    ),
    "a decoder of none": ({"vae": "LORA"}, "vae: expected a folder or a hub id"),
    "no GPU": ({"generate": {"offload": "model", "device": "cpu"}}, "generate.offload: expected a GPU"),
    "compiled": ({"generate": {"compile": True}}, "generate.compile: expected modules that hooks can read"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_is_one_line(case, made, tmp_path, capsys, monkeypatch):
    sections, message = REFUSED[case]
    save_file({"<w>": torch.ones(99)}, tmp_path / "words.safetensors")
    paths = {"LORA": made("toy")[1], "XL": made("sdxl")[1], "SD3": made("sd3")[1]}
    text = json.dumps(sections).replace('"WORDS"', json.dumps(str(tmp_path / "words.safetensors")))
    for name, path in paths.items():
        text = text.replace(f'"{name}"', json.dumps(str(path)))
    if case.startswith("no "):
        spec = importlib.util.find_spec
        monkeypatch.setattr(additions, "find_spec", lambda name: None if name in ABSENT else spec(name))
    for way in ("plan", "run"):
        arguments = ("plan",) if way == "plan" else ()
        assert message in refused(made("toy")[0], tmp_path, capsys, *arguments, **json.loads(text))


def test_a_quantized_folder_asks_for_what_reads_it(made, tmp_path, capsys, monkeypatch):
    model = shutil.copytree(made("toy")[0], tmp_path / "model")
    for method, message in (
        ("torchao", "unet: expected the package torchao, found none: pip install torchao"),
        (
            "gptq",
            "unet/config.json: expected weights in float32, float16 or bfloat16, or quantized by bitsandbytes,",
        ),
    ):
        change(model, "unet/config.json", quantization_config={"quant_method": method})
        monkeypatch.setattr(additions, "find_spec", lambda name: None)
        for way in (("plan",), ()):
            assert message in refused(model, tmp_path, capsys, *way)
