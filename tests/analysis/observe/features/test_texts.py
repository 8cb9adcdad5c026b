"""Embeddings of an audit's sentences: those of open_clip, made once, and again where other ones are asked for."""

import open_clip
import pytest
import torch
from transformers import AutoTokenizer

from analysis.methods.gep.clip import _texts
from analysis.observe.features.attribute_audit import texts
from analysis.observe.features.observer import feature_observer
from analysis.observe.features.registry import FEATURES
from analysis.observe.features.texts import embed_texts, text_vectors
from probes.errors import UserError
from probes.runs.run import Run
from probes.toyworld import WEIGHTS
from tests.analysis.synthetic_run import write_run

CLIP = WEIGHTS / "clip"
CPU = torch.device("cpu")
TEXTS = ("a tie", "A man with a tie riding a bike", "an object")


def test_sentences_are_embedded_as_open_clip_does():
    model, _ = open_clip.create_model_from_pretrained(f"local-dir:{CLIP}")
    tokenizer = AutoTokenizer.from_pretrained(CLIP)
    tokens = tokenizer(
        list(TEXTS), padding="max_length", max_length=model.context_length, return_tensors="pt"
    )
    with torch.inference_mode():
        expected = model.eval().encode_text(tokens["input_ids"]).float()
    got = text_vectors(FEATURES["clip"], CLIP, TEXTS, CPU)
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-6)
    assert not torch.allclose(got[0], got[2], atol=1e-2)


def test_a_network_without_text_is_refused():
    with pytest.raises(UserError, match=r"gep\.clip: expected a CLIP, got 'dino'"):
        text_vectors(FEATURES["dino"], CLIP, TEXTS, CPU)


def audit(path, **gep):
    """A run whose prompts have contexts."""
    run = Run.open(path)
    config = run.meta["config"]
    prompts = [
        {"text": f"a {{person}} with a tie {n}", "levels": {"attribute": "tie", "context": f"at {n}"}}
        for n in "ab"
    ]
    resolved = {**config["resolved"], "prompts": prompts, "gep": gep}
    run.write_meta(config={**config, "resolved": resolved})
    return Run.open(path)


def test_a_run_keeps_the_sentences_it_asks_for(tmp_path):
    path = write_run(tmp_path / "run", prompts=2, steps=2)
    run = audit(path)
    observer, _ = feature_observer("clip", run.config)
    embed_texts(run, [observer])
    (file,) = run.parts("features/clip_texts")
    made = file.stat().st_mtime_ns
    embed_texts(run, [observer])
    assert file.stat().st_mtime_ns == made
    asked = texts(run.config)
    assert set(_texts(run, asked)) == set(asked)
    again = audit(path, reference="a thing")
    embed_texts(again, [observer])
    assert file.stat().st_mtime_ns != made
    assert "a thing" in _texts(again, ["a thing"])
