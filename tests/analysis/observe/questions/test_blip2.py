"""BLIP-2 from folders in the published layout: what is asked, in which form, and what is said where it is not there."""

import json
import shutil

import numpy as np
import pytest
import torch
from PIL import Image
from transformers import Blip2ForConditionalGeneration, Blip2Processor

from analysis.observe.observer import StoredImage
from analysis.observe.questions.blip2 import Blip2
from analysis.questions import paper_questions
from probes.config.observation import BLIP2_WEIGHTS, Questions
from probes.errors import UserError
from tests.analysis.observe.questions.tiny_blip2 import save_tiny

CPU = torch.device("cpu")
ASKED = [paper_questions()[name] for name in ("gender", "suit", "jeans")]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("blip2")
    return {language: save_tiny(folder / language, language) for language in ("opt", "t5")}


@pytest.fixture(scope="module")
def images():
    rng = np.random.default_rng(0)
    sizes = [(64, 48), (40, 40), (64, 48)]
    return [StoredImage({}, "", rng.integers(0, 256, (*size, 3), np.uint8)) for size in sizes]


@pytest.mark.parametrize("language", ["opt", "t5"])
def test_a_batch_is_answered_as_transformers_documents_it_for_an_image(folders, images, language):
    """One image and one question at a time, as the documentation of the class has it."""
    reader = Blip2(Questions(blip2=str(folders[language]), beams=2, tokens=5))
    reader.load(CPU)
    got = [[one.answer for one in row] for row in reader.answers(images, ASKED)]
    processor = Blip2Processor.from_pretrained(folders[language])
    model = Blip2ForConditionalGeneration.from_pretrained(folders[language]).eval()
    for image, row in zip(images, got):
        for asked, answer in zip(ASKED, row):
            prompt = f"Question: {asked.text} Answer:"
            inputs = processor(images=Image.fromarray(image.pixels), text=prompt, return_tensors="pt")
            numbers = model.generate(**inputs, num_beams=2, max_new_tokens=5)
            said = numbers[:, inputs["input_ids"].shape[1] :] if language == "opt" else numbers
            assert processor.batch_decode(said, skip_special_tokens=True)[0].strip() == answer
    assert len({answer for row in got for answer in row}) > 1  # question or image matter
    assert reader._model.vision_model.forward.__func__ is type(reader._model.vision_model).forward


def test_identity_names_weights_form_and_search(folders, tmp_path):
    whole = Blip2(Questions(blip2=str(folders["opt"]))).identity()
    assert whole["prompt"] == "Question: {question} Answer:" and whole["beams"] == 5
    other = shutil.copytree(folders["opt"], tmp_path / "other")
    settings = json.loads((other / "config.json").read_text())
    (other / "config.json").write_text(json.dumps({**settings, "initializer_factor": 2.0}))
    described = Blip2(Questions(blip2=str(other), prompt="{question}")).identity()
    assert {name for name in whole if whole[name] != described[name]} == {"description", "prompt"}
    last = sorted(other.glob("*.safetensors"))[-1]
    last.write_bytes(last.read_bytes() + b" ")
    assert Blip2(Questions(blip2=str(other))).identity()["checkpoint"] != whole["checkpoint"]


def test_what_is_not_there_is_said_in_a_line(folders, tmp_path):
    def refused(name, match, **more):
        with pytest.raises(UserError, match=rf"^observe\.questions\.blip2: .*{match}") as caught:
            reader = Blip2(Questions(blip2=str(name), **more))
            reader.load(CPU)
        assert "\n" not in str(caught.value)

    assert len(list(folders["opt"].glob("*.safetensors"))) > 1  # shards, as of the published ones
    refused(tmp_path / "none", "no such file")
    refused("Salesforce/blip2-flan-t5-xl", "the hub gave none", revision="0" * 40)
    refused(BLIP2_WEIGHTS, "run: hf download")
    partly = shutil.copytree(folders["opt"], tmp_path / "partly")
    shard = sorted(partly.glob("*.safetensors"))[0]
    shard.unlink()
    refused(partly, f"found no {shard.name}")
    wrong = shutil.copytree(folders["t5"], tmp_path / "wrong")
    settings = json.loads((wrong / "config.json").read_text())
    (wrong / "config.json").write_text(json.dumps({**settings, "model_type": "clip"}))
    refused(wrong, "expected a folder or hub id of blip-2, got 'clip'")
    (wrong / "config.json").write_text(json.dumps({**settings, "image_token_index": None}))
    refused(wrong, "expected `image_token_index`")


# Salesforce/blip2-opt-2.7b and -flan-t5-xxl, by their configurations on the hub: language model, and weights there are
