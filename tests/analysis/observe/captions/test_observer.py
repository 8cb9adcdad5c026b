"""Captions: by the checker through the observe stage, and by BLIP and BLIP-2 from folders in the published layout."""

import json
import shutil

import numpy as np
import pytest
import torch
from PIL import Image
from transformers import (
    BertTokenizer,
    Blip2ForConditionalGeneration,
    Blip2Processor,
    BlipConfig,
    BlipForConditionalGeneration,
    BlipImageProcessor,
    BlipProcessor,
)

from analysis.observe.captions.blip import BlipCaptioner
from analysis.observe.captions.observer import KIND
from analysis.observe.registry import observers
from analysis.observe.stage import observe
from probes.config.observation import Captions
from probes.config.schema import Config
from probes.errors import UserError
from probes.runs.parts import read_part
from probes.runs.run import Run
from tests.analysis.observe.questions.tiny_blip2 import save_tiny
from tests.analysis.observe.stored_images import image_run, renderings
from tests.analysis.observe.tiny_models import stirred

CPU = torch.device("cpu")
MARKS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
WORDS = [*MARKS, "a", "person", "dog", "with", "beach", "on", "the", "photo", "of"]
LAYER = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
PICTURE = {"image_size": 28, "patch_size": 14}


def save_blip(folder):
    """As Salesforce/blip-image-captioning-base stands on the hub, a few units wide."""
    folder.mkdir()
    vocabulary = [*WORDS, "[DEC]", "[ENC]"]
    (folder / "vocab.txt").write_text("\n".join(vocabulary))
    tokenizer = BertTokenizer(vocab={word: number for number, word in enumerate(vocabulary)})
    BlipProcessor(BlipImageProcessor(size={"height": 28, "width": 28}), tokenizer).save_pretrained(folder)
    ends = {"bos_token_id": len(WORDS), "eos_token_id": 2, "pad_token_id": 0, "sep_token_id": 3}
    text = {
        **LAYER,
        **ends,
        "vocab_size": len(vocabulary),
        "max_position_embeddings": 40,
        "encoder_hidden_size": 16,
    }
    config = BlipConfig(vision_config={**LAYER, **PICTURE}, text_config=text, projection_dim=16)
    stirred(BlipForConditionalGeneration(config), by=0.3).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("captioners")
    return {"blip": save_blip(folder / "blip"), "blip-2": save_tiny(folder / "blip-2")}


@pytest.fixture(scope="module")
def pictures():
    return list(np.random.default_rng(0).integers(0, 256, (3, 40, 32, 3), np.uint8))


@pytest.mark.parametrize("kind", ["blip", "blip-2"])
@pytest.mark.parametrize("prompt", ["", "a photo of"])
def test_a_batch_is_captioned_as_transformers_documents_it_for_an_image(folders, pictures, kind, prompt):
    captioner = BlipCaptioner(Captions(model=str(folders[kind]), beams=2, tokens=5, prompt=prompt))
    captioner.load(CPU)
    got = captioner.captions(pictures)
    processor = (BlipProcessor if kind == "blip" else Blip2Processor).from_pretrained(folders[kind])
    network = BlipForConditionalGeneration if kind == "blip" else Blip2ForConditionalGeneration
    model = network.from_pretrained(folders[kind]).eval()
    for picture, caption in zip(pictures, got):
        inputs = processor(images=Image.fromarray(picture), text=prompt or None, return_tensors="pt")
        said = model.generate(**inputs, num_beams=2, max_new_tokens=5, do_sample=False)
        whole = processor.batch_decode(said, skip_special_tokens=True)[0].strip()
        assert caption == whole.removeprefix(prompt).strip()
    assert any(got)


def test_what_is_no_captioning_model_is_said_in_a_line(folders, tmp_path):
    def refused(name, match):
        with pytest.raises(UserError, match=rf"^observe\.captions\.model: .*{match}") as caught:
            BlipCaptioner(Captions(model=str(name))).load(CPU)
        assert "\n" not in str(caught.value)

    refused(tmp_path / "away", "no such file")
    whole = folders["blip"]
    refused(whole / "config.json", "expected a folder of transformers, got a file")
    other = shutil.copytree(whole, tmp_path / "other")
    settings = json.loads((other / "config.json").read_text())
    (other / "config.json").write_text(json.dumps({**settings, "model_type": "clip"}))
    refused(other, "expected a folder or hub id of blip or blip-2, got 'clip'")
    wide = {**settings, "text_config": {**settings["text_config"], "num_hidden_layers": 2}}
    (other / "config.json").write_text(json.dumps(wide))
    refused(other, r"got 26 missing \(text_decoder")
    (other / "config.json").write_text(json.dumps(settings))
    (other / "model.safetensors").write_bytes(b"no checkpoint")
    refused(other, "expected whole weights")
    (other / "model.safetensors").unlink()
    refused(other, "found no model.safetensors")


def test_the_checker_names_all_that_a_rendering_shows_and_a_broken_image_is_counted(tmp_path):
    """What the prompt names is in the caption, in the world's words; who is seen is a person, whatever it says."""
    prompts = ["a woman with a dog on the beach", "a man in boots in the park", "a person with an umbrella"]
    images = renderings(prompts)
    images += [np.zeros((64, 64, 3), np.uint8) + 255, b"no image", images[0]]
    run = image_run(
        tmp_path / "run", images, prompts, objects=False, captions={"model": "toyworld-checker", "batch": 2}
    )
    assert observe(run, progress=False) == ""
    rows = [row for part in run.parts(KIND) for row in read_part(part).to_pylist()]
    said = [row["caption"] for row in rows]
    assert said[0].startswith("a person") and "with a dog" in said[0] and said[0].endswith("on the beach")
    assert "in boots" in said[1] and said[1].endswith("in the park") and "with an umbrella" in said[2]
    assert said[3].startswith("an empty picture") and said[5] == said[0]
    assert said[4] is None and rows[4]["reason"]
    record = Run.open(run.path).meta[KIND]
    assert "no captioning network" in record["captioner"]


def test_nothing_captions_unless_it_is_named():
    config = Config(prompts=["a {person}"], observe={"objects": False, "features": []})
    assert observers(config)[0] == []
    named = config.model_copy(
        update={"observe": config.observe.model_copy(update={"captions": Captions(model="toyworld-checker")})}
    )
    assert [one.name for one in observers(named)[0]] == [KIND]
