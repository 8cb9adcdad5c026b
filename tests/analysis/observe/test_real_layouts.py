"""Checkpoints shaped and named like the published ones, with random weights, through the whole observe stage.

The published files are not to be had offline; what can be held to them is the layout: names of files, names, shapes
and number formats of weights, what else is in the file. Run with ``-m slow``; takes minutes and gigabytes.
"""

import subprocess
import sys

import numpy as np
import pytest
import torch

from analysis.observe.objects.models import grounding_dino, segment_anything
from probes.runs.recorded_paths import resolve_path
from probes.runs.store import Run
from tests.analysis.observe.stored_images import image_run
from tests.analysis.observe.tiny_models import save_text_encoder

LIMIT = 24e9  # bytes
BERT = {
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "max_position_embeddings": 512,
    "vocab_size": 30522,
}
# of an untrained detector, whose scores lie about 0.65: some boxes have one tag above it
SURE = {"box_threshold": 0.74, "text_threshold": 0.74}
PROMPTS = ["a person with a dog", "a woman with an umbrella"]


def bert_words():
    """A vocabulary of BERT's size, in which the ends of captions stand where BERT has them."""
    words = [f"[unused{number}]" for number in range(30522 - 7)]
    words[:8] = ["dog", "cat", "umbrella", "person", "woman", "a", "with", "an"]
    return words


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    """Files as they are downloaded, with the largest segmenter."""
    return publish(tmp_path_factory.mktemp("real"), "sam_vit_h_4b8939.pth")


def publish(folder, name):
    """Files as they are downloaded: groundingdino_swint_ogc.pth, sam_vit_h_4b8939.pth, bert-base-uncased/."""
    encoder = save_text_encoder(folder / "bert-base-uncased", bert_words(), **BERT)
    detector, segmenter = folder / "groundingdino_swint_ogc.pth", folder / name
    torch.manual_seed(0)
    tokenizer, config = grounding_dino.text_encoder(str(encoder))
    model = grounding_dino.build(grounding_dino.description(detector), tokenizer, config)
    with torch.no_grad():  # else every token of every box has a score of 1, so that none is the box's own
        model.transformer.decoder.norm.weight.mul_(0.05)
    weights = {f"module.{name}": value for name, value in model.state_dict().items()}
    # what the published file holds besides: of its training, and of the transformers of its time
    weights["module.label_enc.weight"] = torch.zeros(2000, 256)
    weights["module.bert.embeddings.position_ids"] = torch.arange(512)[None]
    torch.save({"model": weights}, detector)
    torch.save(segment_anything.build(segment_anything.description(segmenter)).state_dict(), segmenter)
    return {"detector": str(detector), "segmenter": str(segmenter), "text_encoder": str(encoder)}


OBSERVE = """\
import resource, sys, time
from analysis.observe.stage import observe
from probes.runs.store import Run
began = time.monotonic()
observe(Run.open(sys.argv[1]), progress=False)
used = resource.getrusage(resource.RUSAGE_SELF)
print(time.monotonic() - began, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024)
"""


@pytest.mark.slow
def test_two_images_within_24_gigabytes(real, tmp_path, capsys):
    rng = np.random.default_rng(0)
    images = [rng.integers(0, 256, (512, 512, 3), dtype=np.uint8) for _ in range(2)]
    options = {"model": "a/b", "device": "cpu", "tags": ["prompt"], **SURE}
    run = image_run(tmp_path / "run", images, PROMPTS, **options, **real)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", OBSERVE, str(run.path)],
        capture_output=True,
        text=True,
        timeout=7200,
    )
    assert done.returncode == 0, done.stderr
    seconds, busy, peak = map(float, done.stdout.split()[-3:])
    with capsys.disabled():
        print(
            f"\nobserve, two images of 512 x 512, CPU: {seconds:.0f} s ({busy:.0f} s of processor time),"
            f" peak {peak / 1e9:.1f} GB"
        )
    assert peak < LIMIT
    observed, objects = run.observed(), run.objects()
    people = [next(tag for tag in tags if tag in ("person", "woman")) for tags in observed["tags"]]
    assert people == ["person", "woman"], observed["tags"].map(list).tolist()
    # of a triplet each image is searched for what any of its prompts names
    assert all({"dog", "umbrella"} <= {*tags} for tags in observed["tags"]), (
        observed["tags"].map(list).tolist()
    )
    assert (observed["status"] == "ok").all()
    assert len(objects) == observed["kept"].sum() > 0
    assert (objects["height"] == 512).all()
    checkpoints = Run.open(run.path).meta["observer"]["checkpoints"]
    files = [[resolve_path(file, run.path) for file in files] for files in checkpoints.values()]
    assert files == [[real["detector"]], [real["segmenter"]]]
    assert all(len(checksum) == 64 for files in checkpoints.values() for checksum in files.values())
