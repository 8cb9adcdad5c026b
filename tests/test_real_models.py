"""Models of the published architectures and sizes with random weights, through the whole command line on a CPU.

The published weights are not to be had offline; what can be held to them is the layout: folders, files, names, shapes,
number formats, vocabulary and tokens. Run with ``-m slow``; takes minutes and gigabytes.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import diffusers
import numpy as np
import pytest
import torch
import transformers

from analysis.observe.objects.tags.ram import PUBLISHED
from probes.models import hub, single_file
from probes.models.loading import usable_scheduler
from probes.models.source import Source
from probes.models.weights import assemble_pipeline
from probes.runs.run import Run
from tests.analysis.observe.features.published_layouts import publish_features
from tests.analysis.observe.objects.tags.ram_equations import tagger_layout
from tests.analysis.observe.objects.tags.test_ram import drawn, publish_ram
from tests.analysis.observe.real_layouts import LIMIT, publish

RUN = """\
import resource, sys
from triptych.cli.main import main
code = main(sys.argv[1:])
used = resource.getrusage(resource.RUSAGE_SELF)
print(used.ru_utime + used.ru_stime, used.ru_maxrss * 1024)
sys.exit(code)
"""


def save_model(folder, description, *, variant=None):
    """A diffusers folder of a shipped description's architecture, at its size, with random weights.

    A variant is stored in half precision.
    """
    pipe = build_model(description)
    if variant:
        pipe = pipe.to(torch.float16)
    pipe.save_pretrained(folder, variant=variant)
    return folder


def build_model(description):
    """A pipeline of a shipped description's architecture, at its size, with random weights."""
    shipped = single_file.DESCRIPTIONS / description
    source = Source(description, "folder", shipped, shipped)
    torch.manual_seed(0)
    networks = {}
    for name, (library, kind) in ((one.name, source.index[one.name]) for one in source.layout.networks):
        config = source.read_json(f"{name}/config.json")
        if library == "transformers":
            networks[name] = getattr(transformers, kind)(transformers.CLIPTextConfig.from_dict(config))
        else:
            networks[name] = getattr(diffusers, kind).from_config(config)
    return assemble_pipeline(source, networks, usable_scheduler(source))


@pytest.fixture(scope="module")
def vision(tmp_path_factory):
    """What observes the images: files in the published layouts, by the fields of `observe`."""
    folder = tmp_path_factory.mktemp("vision")
    objects = publish(folder, "sam_vit_h_4b8939.pth")
    ram = publish_ram(folder, drawn(tagger_layout(PUBLISHED), np.random.default_rng(0)))
    features = folder / "features"
    features.mkdir()
    yield {**objects, "ram": str(ram), "feature_weights": publish_features(features)}
    shutil.rmtree(folder)


@pytest.fixture
def passing(tmp_path):
    """A folder that is gone after the test: gigabytes."""
    yield tmp_path
    shutil.rmtree(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("description", "variant", "known"),
    [
        ("sd1", None, "CompVis/stable-diffusion-v1-4"),
        ("sd2-epsilon", "fp16", "stabilityai/stable-diffusion-2-1-base"),
    ],
)
def test_the_whole_job_within_24_gigabytes(description, variant, known, vision, passing, capsys):
    """Plan, generate, observe, measure and report for one triplet of 512 x 512 pixels in two steps."""
    model = save_model(passing / "model", description, variant=variant)
    config = {
        "model": str(model),
        "prompts": ["a {person} with a dog and an umbrella"],
        "sampler": {"steps": 2},
        "generate": {"batch_triplets": 1, "workers": 1, "device": "cpu"},
        "observe": {
            **vision,
            "tags": ["ram", "prompt"],
            "features": list(vision["feature_weights"]),
            "batch": 1,
        },
        "out": str(passing / "run"),
    }
    file = passing / "triplets.yaml"
    file.write_text(json.dumps(config))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", RUN, str(file), "--quiet"],
        capture_output=True,
        text=True,
        timeout=14400,
    )
    assert done.returncode == 0, done.stderr
    busy, peak = map(float, done.stdout.split()[-2:])
    with capsys.disabled():
        print(f"\n{description}, one triplet: {busy:.0f} s of processor time, peak {peak / 1e9:.1f} GB")
    assert peak < LIMIT
    run = Run.open(passing / "run")
    with capsys.disabled():
        print("seconds by stage:", run.meta["times"]["seconds"])
    if keep := os.environ.get("KEEP_RUN"):  # to look at the report
        shutil.copytree(run.path, Path(keep) / description)
    assert run.status == "complete"
    record = run.meta["model"]
    assert record["parameters"] == hub.known_models()[known]["parameters"]
    assert (record["variant"], record["prediction_type"]) == (variant, "epsilon")
    assert run.config.generate.dtype == "float32"
    assert len(run.samples()) == 3
    observed, objects = run.read("observed"), run.read("objects")
    assert (observed["status"] == "ok").all()
    assert len(objects) == observed["kept"].sum() and (objects["height"] == 512).all()
    checkpoints = run.meta["observer"]["checkpoints"].values()  # by the way from the run to them
    assert [[str((run.path / file).resolve()) for file in files] for files in checkpoints] == [
        [vision["detector"]],
        [vision["segmenter"]],
        [vision["ram"]],
    ]
    assert (
        observed["tags"].map(lambda tags: any(tag.startswith("tag ") for tag in tags)).all()
    )  # of RAM's list
    compared = run.table("image_similarities")[[*vision["feature_weights"]]]
    assert len(compared.columns) == 5 and compared.notna().all(axis=None)
    assert (run.path / "report.html").stat().st_size > 100_000
    inside = run.read("captures", ["unet.mid:cosine"])["unet.mid:cosine"].explode()
    assert len(inside) and inside.astype(float).between(-1.001, 1.001).all()
