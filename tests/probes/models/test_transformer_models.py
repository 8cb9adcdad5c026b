"""Diffusion transformers as models of runs: read from folders of the published layout, and refused in one line."""

from __future__ import annotations

import functools
import io
import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image
from scipy.spatial.distance import cosine

from hooks.architectures.registry import generating_pipelines
from probes.errors import UserError
from probes.models import loading
from probes.models.requirements import check_before_weights
from probes.runs.images import eight_bits
from probes.runs.run import Run
from probes.stages import estimate
from tests.probes.conftest import generated, settings
from tests.probes.models.model_faults import INDEX, change, refused
from tests.tiny_transformers import ROWS, call_options, tiny_transformer_pipeline


def kinds(usual, rare):
    """Families of which the rare ones are tested with -m slow."""
    return [*usual, *(pytest.param(kind, marks=pytest.mark.slow) for kind in rare)]


USUAL = ["sd3", "flux-dev", "pixart-sigma"]
DRAWN = [kind for kind, row in ROWS.items() if row.pipeline in generating_pipelines()]
KINDS = kinds(USUAL, [kind for kind in DRAWN if kind not in USUAL])


@pytest.fixture(scope="module")
def saved_kind(tmp_path_factory):
    @functools.cache
    def get(kind):
        path = tmp_path_factory.mktemp(kind) / "model"
        tiny_transformer_pipeline(kind).save_pretrained(path)
        return path

    return get


@pytest.fixture
def copied(saved_kind, tmp_path):
    return lambda kind: shutil.copytree(saved_kind(kind), tmp_path / "copy")


def small(model, kind, **over):
    size = call_options(kind)["height"]
    fields = {
        "prompts": ["a {person} with a dog"],
        "seeds": [0],
        "sampler": {"steps": 2, "height": size, "width": size},
        "generate": {"workers": 1},
    }
    return settings(model, **{**fields, **over})


def generated_alone(pipe, samples, **options):
    """Images of the pipeline alone of the prompts and the noise of some rows."""
    noise = [torch.Generator().manual_seed(int(seed)) for seed in samples["noise_seed"]]
    options = {"num_inference_steps": 2, "output_type": "np", **options}
    return pipe(prompt=list(samples["prompt"]), generator=noise, **options).images


@pytest.mark.parametrize("kind", KINDS)
def test_a_description_is_checked_without_weights(kind, saved_kind):
    source = loading.resolve(str(saved_kind(kind)), weights=False)
    pipe = loading.meta_pipeline(source, steps=2)
    assert {parameter.device.type for parameter in pipe.transformer.parameters()} == {"meta"}
    assert " on disk (" in estimate.resources_line(small(saved_kind(kind), kind), pipe, 6, 6)


def test_what_is_stored_is_what_hooks_of_torch_see(saved_kind, tmp_path):
    """Of SD3: a layer of T5 over the words that the prompts share, a stream of the image, and the words' positions."""
    model = saved_kind("sd3")
    generated(tmp_path / "run", small(model, "sd3"))
    samples = pq.read_table(tmp_path / "run" / "samples").to_pandas()
    captures = pq.read_table(tmp_path / "run" / "captures").to_pandas()
    pipe = loading.load(loading.resolve(str(model)), device="cpu").pipe
    layer, stream = [], []
    hooks = [
        pipe.text_encoder_3.encoder.block[1].register_forward_hook(lambda m, a, out: layer.append(out[0])),
        pipe.transformer.transformer_blocks[1].register_forward_hook(lambda m, a, out: stream.append(out[1])),
    ]
    generated_alone(pipe, samples, guidance_scale=7.0, height=32, width=32)
    for hook in hooks:
        hook.remove()
    with torch.no_grad():
        states = pipe.text_encoder_3.encoder.final_layer_norm(layer[0])
    rows = {name: index for index, name in enumerate(samples["indicator"])}
    spelled = pipe.tokenizer_3.convert_ids_to_tokens(pipe.tokenizer_3(samples["prompt"][0]).input_ids)
    assert spelled == ["▁a", "▁person", "▁with", "▁a", "▁dog", "</s>"]
    assert [list(at) for at in samples["word_positions"][0]] == [[1], [2], [3], [4], [5]]
    assert [list(at) for at in samples["word_positions_2"][0]] == [[0], [1], [2], [3], [4]]
    for _, pair in captures.iterrows():
        first, second = rows[pair["first"]], rows[pair["second"]]
        left, right = (
            states[row][[0, 2, 3, 4]].detach().flatten().double().numpy() for row in (first, second)
        )
        assert pair["text_3.layers.1:cosine_words"][0] == pytest.approx(1 - cosine(left, right), abs=2e-6)
        for call, values in enumerate(stream):
            left, right = (values[3 + row].detach().flatten().double().numpy() for row in (first, second))
            expected = pytest.approx(1 - cosine(left, right), abs=2e-6)
            assert pair["dit.block.1.image:cosine"][call] == expected
    words = pq.read_table(tmp_path / "run" / "words").to_pandas()
    assert set(words["definition"]) == {"joint-mass"} and np.isfinite(words["peak"]).all()
    assert {(row.height, row.width) for row in words.itertuples()} == {(8, 8)}


def require_same(samples, images):
    """To a grey level: in batches of other sizes some processors add in another order."""
    for stored, image in zip(samples["image"], images, strict=True):
        seen = np.asarray(Image.open(io.BytesIO(stored["bytes"])))
        np.testing.assert_allclose(seen, eight_bits(image), rtol=0, atol=1)


RARE = ["flux-dev", "sana", "sana-sprint", "cogview3", "cogview4", "hunyuan-dit"]
RARE += ["chroma", "lumina2", "z-image", "auraflow"]


@pytest.mark.parametrize(
    "kind",
    kinds(["pixart-sigma", "qwen-image"], [*RARE, "flux2-klein", "longcat-image", "krea2"]),
)
def test_images_are_those_of_the_pipeline_alone(kind, saved_kind, tmp_path):
    model = saved_kind(kind)
    generated(tmp_path / "run", small(model, kind))
    samples = pq.read_table(tmp_path / "run" / "samples").to_pandas()
    pipe = loading.load(loading.resolve(str(model)), device="cpu").pipe
    options = call_options(kind)
    if kind == "qwen-image":
        options["true_cfg_scale"] = loading.default_guidance(loading.resolve(str(model), weights=False))
    require_same(samples, generated_alone(pipe, samples, **options))


@pytest.mark.parametrize("kind", kinds(["lumina2"], ["sana", "qwen-image"]))
def test_system_prompts_are_given_to_the_pipeline_and_recorded(kind, saved_kind, tmp_path):
    """Each prompt's images are those of the pipeline that was told by hand; of the model's own nothing was told."""
    model, asked = saved_kind(kind), "Draw {what} is in the park: "
    texts = ["a {person} with a dog", "a {person} in the park"]
    prompts = {"system": {"own": None, "plain": asked}, "texts": texts}
    generated(tmp_path / "run", small(model, kind, prompts=prompts, capture={"words": True}))
    run = Run.open(tmp_path / "run")
    assert [one.levels for one in run.config.prompts] == [
        {"system": name, "text": text} for name in ("own", "plain") for text in texts
    ]
    assert [one.system_prompt for one in run.config.prompts] == [None, None, asked, asked]
    samples = pq.read_table(tmp_path / "run" / "samples").to_pandas()
    assert samples["noise_seed"].nunique() == 4  # prompts stay independent
    pipe = loading.load(loading.resolve(str(model)), device="cpu").pipe
    images = []
    for system in (None, asked):
        rows, options = samples[(samples["triplet"] >= 2) == (system is not None)], call_options(kind)
        if kind == "qwen-image":
            options["true_cfg_scale"] = loading.default_guidance(loading.resolve(str(model), weights=False))
        if system is not None and kind == "qwen-image":
            before = "<|im_start|>system\nDraw {{what}} is in the park: <|im_end|>\n<|im_start|>user\n"
            pipe.prompt_template_encode = before + "{}<|im_end|>\n<|im_start|>assistant\n"
            pipe.prompt_template_encode_start_idx = len(pipe.tokenizer.tokenize(before.format()))
        elif system is not None:
            options |= {"complex_human_instruction": [asked]} if kind == "sana" else {"system_prompt": asked}
        images.append(generated_alone(pipe, rows, **options))
        require_same(rows, images[-1])
        for row in rows.itertuples():  # in the tokenizer's whole text
            word = [row.tokens[place] for place in row.indicator_positions]
            assert "".join(word).strip("▁Ġ") == row.word and min(row.indicator_positions) > 3
    assert np.abs(np.subtract(*images)).max() > 10 / 255


def test_a_tokenizer_without_its_vocabulary(copied, tmp_path, capsys, monkeypatch):
    """In its place transformers would put one of a few signs."""
    model = copied("sd3")
    file = model / "tokenizer_3" / "tokenizer.json"
    file.unlink()
    expected = (
        "tokenizer_3: expected one of tokenizer.json, vocab.json, spiece.model, tokenizer.model, got none"
    )
    assert expected in refused(model, tmp_path, capsys)
    (model / "tokenizer_3" / "spiece.model").write_bytes(b"")
    monkeypatch.setattr("probes.models.source.find_spec", lambda name: None)
    expected = "tokenizer_3: expected tokenizer.json, got spiece.model alone: pip install sentencepiece"
    assert expected in refused(model, tmp_path, capsys)


def test_float16_is_refused_where_the_text_encoder_overflows(saved_kind, tmp_path, capsys):
    line = refused(saved_kind("pixart-sigma"), tmp_path, capsys, "--dtype", "float16")
    assert "expected bfloat16 or float32 for a model with a T5EncoderModel" in line
    source = loading.resolve(str(saved_kind("pixart-sigma")), weights=False)
    assert loading.pick_model_dtype(source, "auto", "cuda:1") == "bfloat16"
    assert loading.pick_model_dtype(source, "auto", "cpu") == "float32"


def test_a_negative_prompt_where_the_pipeline_takes_none(saved_kind, tmp_path, capsys):
    line = refused(saved_kind("flux2-klein"), tmp_path, capsys, "--negative-prompt", "a dog")
    assert "--negative-prompt: expected none for FLUX.2 klein, whose pipeline takes none" in line


def test_guidance_that_was_distilled(saved_kind, tmp_path, capsys):
    line = refused(saved_kind("flux-schnell"), tmp_path, capsys, "--guidance-scale", "3")
    assert "--guidance-scale: expected none for this model, which was distilled without one" in line
    source = loading.resolve(str(saved_kind("flux-schnell")), weights=False)
    assert loading.default_guidance(source) == 0
    assert loading.default_guidance(loading.resolve(str(saved_kind("flux-dev")), weights=False)) == 3.5


@pytest.mark.slow
def test_guidance_beside_the_distilled_one(saved_kind, tmp_path):
    """With a negative prompt, and with an empty one; each step is reckoned as two calls."""
    model = saved_kind("flux-dev")
    pipe = loading.load(loading.resolve(str(model)), device="cpu").pipe
    for negative in ("a dog", ""):
        sampler = {"steps": 2, "height": 32, "width": 32, "true_cfg_scale": 3.0, "negative_prompt": negative}
        config = small(model, "flux-dev", sampler=sampler)
        generated(tmp_path / f"run {negative}", config)
        samples = pq.read_table(tmp_path / f"run {negative}" / "samples").to_pandas()
        captures = pq.read_table(tmp_path / f"run {negative}" / "captures").to_pandas()
        assert len(captures["noise_pred.unconditional:cosine"][0]) == 2
        options = {"negative_prompt": [negative] * 3, "true_cfg_scale": 3.0, "height": 32, "width": 32}
        require_same(samples, generated_alone(pipe, samples, **options))
    other = loading.resolve(str(saved_kind("sd3")), weights=False)
    with pytest.raises(
        UserError, match=r"sampler\.true_cfg_scale: expected none for Stable Diffusion 3 or 3\.5"
    ):
        check_before_weights(small(model, "sd3", sampler={"true_cfg_scale": 3.0}), other)


def test_what_is_done_with_u_nets_alone(saved_kind, tmp_path, capsys):
    edit = {"kind": "shift", "direction": ["woman", "man"]}
    line = refused(saved_kind("sd3"), tmp_path, capsys, "--steps", "1", edit=edit)
    assert "edit: expected a Stable Diffusion 1, 2 or" in line and "a diffusion transformer" in line


def test_positions_of_a_text_that_the_pipeline_alters_are_not_pooled(saved_kind, tmp_path, capsys):
    line = refused(
        saved_kind("pixart-sigma"), tmp_path, capsys, "--steps", "1", capture={"pool": ["text.layers.1"]}
    )
    assert "capture.pool: expected sites of the image for PixArt-Σ, whose pipeline alters a prompt or" in line


@pytest.mark.parametrize("over", [{"capture": {"definition": "daam"}}, {"preset": "wu2025"}])
def test_word_maps_of_unets_are_refused_by_name(over, saved_kind):
    """Those of the transformer itself are taken where none are named, not in place of others."""
    model = saved_kind("sd3")
    source = loading.resolve(str(model), weights=False)
    expected = (
        "capture.definition: expected one of joint-mass, joint-share, output-space for Stable Diffusion 3 or"
    )
    with pytest.raises(UserError, match=expected):
        check_before_weights(small(model, "sd3", **over), source)
    check_before_weights(small(model, "sd3", capture={"definition": "daam", "words": False}), source)
    check_before_weights(small(model, "sd3"), source)
    pixart = loading.resolve(str(saved_kind("pixart-sigma")), weights=False)
    with pytest.raises(
        UserError, match="expected one of joint-mass, joint-share for PixArt-Σ, got output-space"
    ):
        check_before_weights(small(model, "sd3", capture={"definition": "output-space"}), pixart)


@pytest.mark.parametrize(
    ("pipeline", "missing"),
    [
        ("Flux2Pipeline", "its text stands behind padding"),
        ("HunyuanVideoPipeline", "it makes videos"),
        ("StableDiffusionInpaintPipeline", ""),
        ("HiDreamImagePipeline", "each block is given another layer of the text encoder"),
    ],
)
def test_layouts_that_are_known_and_not_read(pipeline, missing, copied, tmp_path, capsys):
    model = copied("sd3")
    change(model, INDEX, _class_name=pipeline)
    line = refused(model, tmp_path, capsys)
    assert f"expected a pipeline that can be read, got {pipeline}: " in line and missing in line
    assert "choose a text-to-image" in line and "download" not in line
