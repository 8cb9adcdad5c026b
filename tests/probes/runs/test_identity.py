"""The identity of a run: every field and every file that alters what is drawn, changed in turn on a run half done."""

import json
import shutil

import pytest
from safetensors.torch import load_file, save_file

from probes.config.schema import Config
from probes.errors import UserError
from probes.runs import directory, record
from probes.runs.directory import claim
from probes.runs.record import generated_fields
from probes.runs.run import Run
from tests.probes.conftest import generated, stored

BASE = {
    "name": "base",
    "indicators": {"neutral": "person", "feminine": "woman", "masculine": "man", "other": "individual"},
    "prompts": ["a {person} with a dog", "a {person} in a car"],
    "seeds": [0],
    "sampler": {"steps": 1, "negative_prompt": "hat"},
    "capture": {"sites": ["text.final", "latent.final"], "keep": ["latent.final"], "keep_places": 3},
    "generate": {"part_triplets": 1, "batch_triplets": 1, "device": "cpu"},
}
WORDS = BASE["indicators"]
REFUSED, SAME = "refused", "the same bytes"
CHANGES = {
    "name": ({"name": "another"}, SAME),
    "indicators.word": ({"indicators": {**WORDS, "neutral": "human"}}, REFUSED),
    "indicators.control": ({"indicators": {**WORDS, "other": {"word": "individual", "control": True}}}, SAME),
    "prompts": ({"prompts": ["a {person} with a dog", "a {person} in a hat"]}, REFUSED),
    "limit": ({"limit": 1}, REFUSED),
    "seeds": ({"seeds": [1]}, REFUSED),
    "contrasts": ({"contrasts": []}, SAME),
    "measure": ({"measure": {"bootstrap": 7}}, SAME),
    "report": ({"report": {"gallery": 3}}, SAME),
    "observe": ({"observe": {"batch": 2, "objects": False}}, SAME),
    "trace": ({"trace": {"windows": 2}}, SAME),
    "sampler.steps": ({"sampler": {"steps": 2}}, REFUSED),
    "sampler.guidance_scale": ({"sampler": {"guidance_scale": 7.500001}}, REFUSED),
    "sampler.scheduler": ({"sampler": {"scheduler": "euler"}}, REFUSED),
    "sampler.negative_prompt": ({"sampler": {"negative_prompt": "dog"}}, REFUSED),
    "sampler.noise": ({"sampler": {"noise": "shared"}}, REFUSED),
    "sampler.height": ({"sampler": {"height": 32}}, REFUSED),
    "sampler.true_cfg_scale": ({"sampler": {"true_cfg_scale": 2.0}}, REFUSED),
    "capture.sites": ({"capture": {"sites": ["unet.mid"]}}, REFUSED),
    "capture.words": ({"capture": {"words": False}}, REFUSED),
    "capture.definition": ({"capture": {"definition": "self-refined"}}, REFUSED),
    "capture.keep": ({"capture": {"keep": ["latent"]}}, REFUSED),
    "capture.keep_places": ({"capture": {"keep_places": 4}}, REFUSED),
    "capture.pool": ({"capture": {"pool": ["unet.mid"]}}, REFUSED),
    "generate.batch_triplets": ({"generate": {"batch_triplets": 2}}, REFUSED),
    "generate.part_triplets": ({"generate": {"part_triplets": 2}}, REFUSED),
    "generate.dtype": ({"generate": {"dtype": "bfloat16"}}, REFUSED),
    "generate.workers": ({"generate": {"workers": 2}}, SAME),
    "generate.device": ({"generate": {"device": "auto"}}, SAME),
    "edit": ({"edit": {"words": {"person": {"woman": 0.5}}}}, REFUSED),
}


def configuration(model, **over):
    fields = {"sampler": {}, "capture": {}, "generate": {}, **{k: v for k, v in BASE.items()}}
    for key, value in over.items():
        joined = isinstance(value, dict) and key in ("sampler", "capture", "generate")
        fields[key] = {**fields[key], **value} if joined else value
    return Config(model=str(model), **fields)


def half(path):
    """A run of two parts of which only the first is there."""
    for part in path.rglob("part-00001.parquet"):
        part.unlink()
    return path


@pytest.fixture(scope="module")
def whole(saved, tmp_path_factory):
    return generated(tmp_path_factory.mktemp("whole") / "run", configuration(saved())).path


@pytest.fixture
def started(whole, tmp_path):
    return half(shutil.copytree(whole, tmp_path / "run"))


@pytest.mark.parametrize("field", CHANGES)
def test_another_field_is_refused_by_name_or_alters_nothing(field, saved, started, whole):
    over, outcome = CHANGES[field]
    before = stored(started)
    if outcome == SAME:
        generated(started, configuration(saved(), **over))
        assert stored(started) == stored(whole)
    else:
        name = field.removesuffix(".word")
        with pytest.raises(UserError, match=rf"holds another run: {name}"):
            generated(started, configuration(saved(), **over))
        assert stored(started) == before


def test_the_reference_of_free_captions_keys_their_noise(saved, tmp_path):
    captions = [
        {"neutral": f"a person {i}", "feminine": f"a woman {i}", "masculine": f"a man {i}"} for i in "ab"
    ]
    words = {name: WORDS[name] for name in ("neutral", "feminine", "masculine")}
    over = {"prompts": captions, "indicators": words}
    path = half(generated(tmp_path / "own", configuration(saved(), **over)).path)
    with pytest.raises(
        UserError, match="holds another run: reference is 'neutral' there, expected 'feminine'"
    ):
        generated(path, configuration(saved(), **over, reference="feminine"))
    shared = {**over, "sampler": {"noise": "shared"}}
    run = generated(tmp_path / "shared", configuration(saved(), **shared))
    expected = stored(run.path)
    generated(half(run.path), configuration(saved(), **shared, reference="feminine"))
    assert stored(run.path) == expected


def put(file, **fields):
    file.write_text(json.dumps({**json.loads(file.read_text()), **fields}))


def swap_two_tokens(file):
    """The same words, other numbers: no token of the plan is spelled otherwise."""
    data = json.loads(file.read_text())
    vocabulary = data["model"]["vocab"]
    vocabulary["dog</w>"], vocabulary["car</w>"] = vocabulary["car</w>"], vocabulary["dog</w>"]
    file.write_text(json.dumps(data, ensure_ascii=False))


def nudge(file):
    weights = load_file(file)
    name = sorted(weights)[0]
    weights[name].view(-1)[0] += 1e-3
    save_file(weights, file, metadata={"format": "pt"})


FILES = {
    "scheduler/scheduler_config.json": lambda file: put(file, beta_end=0.02),
    "tokenizer/tokenizer.json": swap_two_tokens,
    "unet/diffusion_pytorch_model.safetensors": nudge,
}


@pytest.mark.parametrize("name", FILES)
def test_another_file_of_the_model_is_refused_by_name(name, saved, started, tmp_path):
    model = shutil.copytree(saved(), tmp_path / "model")
    FILES[name](model / name)
    before = stored(started)
    expected = r"model is .* \(weights" if name.endswith(".safetensors") else f"model/{name} is "
    with pytest.raises(UserError, match=f"holds another run: {expected}"):
        generated(started, configuration(model))
    assert stored(started) == before


# A later stage alone


def taken_up(path, config, stages):
    with claim(path) as run:
        directory.require_same(run, config.resolved())
        directory.prepare_stage(run, config, *stages, run.meta["config"]["passed"], "")
    return Run.open(path)


@pytest.mark.parametrize("field", ["name", "indicators.control", "contrasts", "measure", "report"])
def test_measuring_alone_applies_a_field(field, saved, whole, tmp_path):
    path, config = shutil.copytree(whole, tmp_path / "run"), configuration(saved(), **CHANGES[field][0])
    run = taken_up(path, config, ("measure",))
    section = field.split(".")[0]
    assert run.resolved[section] == config.resolved()[section]
    assert run.status == "generated"
    assert generated_fields(run.resolved) == generated_fields(Run.open(whole).resolved)


def test_a_report_alone_is_of_the_tables_that_are_there(saved, whole, tmp_path):
    path = shutil.copytree(whole, tmp_path / "run")
    with pytest.raises(
        UserError, match="expected a measured run, found it generated: run --stage measure first"
    ):
        taken_up(path, configuration(saved()), ("report",))
    run = Run.open(path)
    directory.record_stage(run, "measured", 1.0)
    for over, name in (
        ({"measure": {"bootstrap": 7}}, "measure.bootstrap is 2000"),
        ({"contrasts": []}, r"contrasts\[0\] is "),
        ({"observe": {"objects": False}}, "observe.objects is True"),
        ({"reference": "other", "contrasts": []}, r"(reference is 'neutral'|contrasts\[0\] is )"),
        (CHANGES["indicators.control"][0], r"(indicators\.other\.control is False|contrasts\[\d\] is )"),
    ):
        with pytest.raises(UserError, match=rf"holds another run: {name}.*: run --stage measure first"):
            taken_up(path, configuration(saved(), **over), ("report",))
    assert taken_up(path, configuration(saved(), report={"gallery": 3}), ("report",)).resolved["report"] == {
        **run.resolved["report"],
        "gallery": 3,
    }


def test_every_field_of_the_schema_has_a_stage():
    config = Config(prompts=["a {person}"]).resolved()
    altered = {*record.altered_stages().values()}
    assert altered == {"generate", "part", "observe", "trace", "measure", "report", "nothing"}
    assert record.fields_altering(config, *altered).keys() <= record.altered_stages().keys()
