"""Questions through the observe stage: what is stored, what is asked again, who is not asked and why."""

import json

import numpy as np
import open_clip
import pytest
import torch
from PIL import Image
from scipy.special import softmax

from analysis.observe.observer import StoredImage
from analysis.observe.questions.observer import question_observer
from analysis.observe.questions.toyworld_checker import ToyworldCheckerReader
from analysis.observe.questions.toyworld_vqa import ToyworldVqa
from analysis.observe.registry import observers
from analysis.observe.stage import observe
from analysis.questions import paper_questions
from lab.train.detectors.pictures import make_questioned
from probes.config.schema import Config
from probes.errors import UserError
from probes.runs import schemas
from probes.runs.parts import read_identity, read_part
from probes.runs.run import Run
from probes.toyworld import WEIGHTS
from probes.toyworld.checker import THINGS
from tests.analysis.observe.stored_images import image_run

GRID = {"grid": "a {person} who works as a {profession}", "profession": ["baker", "pilot"]}
PAPER = paper_questions()


@pytest.fixture(scope="module")
def pictures():
    """Nine renderings."""
    return make_questioned(9, 5, through_vae=0, empty=0)


@pytest.fixture(scope="module")
def asked_run(tmp_path_factory, pictures):
    """What the checker and CLIP answer about eight renderings and one image that cannot be read."""
    images = [*pictures.images]
    images[4] = b"no image"
    questions = {
        "readers": ["toyworld-checker", "clip"],
        "ask": {
            "hair": {"text": "Is the hair long?"},
            "dog": {"text": "Is there a dog?", "sentences": {"yes": "a dog", "no": "a cat"}},
        },
    }
    settings = {"objects": False, "questions": questions}
    run = image_run(tmp_path_factory.mktemp("asked") / "run", images, ["a person"], part=6, **settings)
    assert observe(run, progress=False) == ""
    return Run.open(run.path)


def rows(run, name):
    return [row for part in run.parts(f"attributes/{name}") for row in read_part(part).to_pylist()]


def test_an_answer_is_stored_for_every_image_and_question(asked_run, pictures):
    stored = rows(asked_run, "toyworld-checker")
    samples, keys = asked_run.samples()["sample_id"].tolist(), [*PAPER, "hair", "dog"]
    assert [(row["sample_id"], row["question"]) for row in stored] == [(s, k) for s in samples for k in keys]
    for index, sample in enumerate(samples):
        said = {row["question"]: row for row in stored if row["sample_id"] == sample}
        if index == 4:
            assert all(row["answer"] is row["reading"] is None and row["reason"] for row in said.values())
            continue
        verdict = pictures.verdicts[index]
        assert said["gender"]["reading"] == ("male" if verdict > 0 else "female")
        assert said["gender"]["score"] == pytest.approx(1 / (1 + np.exp(-abs(verdict))), abs=1e-9)
        for name in ("boots", "tie", "dog"):
            there = pictures.labels[index, THINGS.index(name)]
            assert said[name]["reading"] == ("yes" if there else "no") and said[name]["score"] is None
        assert said["hair"]["reason"] == "the checker does not know what is asked"
    part = read_part(asked_run.parts("attributes/toyworld-checker")[0])
    assert part.schema.remove_metadata().equals(schemas.ANSWERS)


def test_clip_gives_the_softmax_of_its_scaled_cosines(asked_run, pictures):
    """Against open_clip itself and SciPy's softmax."""
    folder = WEIGHTS / "clip"
    model, transform = open_clip.create_model_from_pretrained(f"local-dir:{folder}")
    tokens = open_clip.tokenizer.HFTokenizer(str(folder), context_length=model.context_length)
    sentences = ["a person in boots", "a person"]
    image = transform(Image.fromarray(pictures.images[0]))[None]
    with torch.inference_mode():
        _, texts, scale = model(image, tokens(sentences))
        vector = model.encode_image(image, normalize=True)
    expected = softmax((float(scale) * vector @ texts.T)[0].double().numpy())
    row = next(row for row in rows(asked_run, "clip") if row["question"] == "boots")
    assert row["asked"] == "a person in boots / a person" and row["answer"] == sentences[expected.argmax()]
    assert row["reading"] == ("yes", "no")[expected.argmax()]
    assert row["score"] == pytest.approx(expected.max(), abs=1e-4)
    unasked = {row["reason"] for row in rows(asked_run, "clip") if row["question"] == "hair"}
    assert "observe.questions.ask.hair has no sentences for CLIP" in unasked


def test_identity_and_record_hold_what_alters_an_answer(asked_run):
    checker = read_identity(asked_run.part_path("attributes/toyworld-checker", 0))["fields"]
    assert checker["attributes/toyworld-checker.questions.gender"]["text"] == PAPER["gender"].text
    assert checker["attributes/toyworld-checker.verdict"] and checker["observe.questions.batch"] == 8
    record = asked_run.meta["attributes/clip"]
    fields = read_identity(asked_run.part_path("attributes/clip", 1))["fields"]
    assert record["checkpoint"] == fields["attributes/clip.checkpoint"]


def test_other_words_of_a_reading_are_another_run(asked_run):
    config = json.loads(json.dumps(asked_run.meta["config"]))
    config["resolved"]["observe"]["questions"]["ask"]["dog"]["text"] = "A dog?"
    other = Run(asked_run.path, {**asked_run.meta, "config": config})
    with pytest.raises(UserError, match=r"questions\.dog .*--stage observe --overwrite"):
        observe(other, progress=False)


def test_the_checker_is_undecided_without_a_figure(pictures):
    empty = make_questioned(2, 6, through_vae=0, empty=1).images
    images = [StoredImage({}, "a person", image) for image in (*empty, pictures.images[0])]
    said = [row[0] for row in ToyworldCheckerReader().answers(images, [PAPER["gender"]])]
    assert [one.answer for one in said[:2]] == ["unclear"] * 2 and said[0].reading is None
    assert said[2].reading
    other = [StoredImage({}, "a person", np.zeros((32, 64, 3), np.uint8))]
    for reader in (ToyworldCheckerReader(), ToyworldVqa()):
        with pytest.raises(
            UserError, match=r"expected images of 64 × 64 pixels, got 32 × 64: ask another reader"
        ):
            reader.answers(other, [PAPER["gender"]])


def configured(prompts, model="toyworld", **settings):
    others = {"objects": False, "features": [], "skin_tone": {"look": False}}
    return Config(prompts=prompts, model=model, observe={**others, "questions": settings})


@pytest.mark.parametrize(
    ("config", "asked"),
    [
        (configured(GRID), ["attributes/toyworld-vqa", "attributes/toyworld-checker"]),
        (configured(["a {person}"]), []),
        (configured(["a {person}"], readers=["toyworld-checker"]), ["attributes/toyworld-checker"]),
        (configured(GRID, readers=[]), []),
        (configured(GRID, model="some/model"), []),
    ],
)
def test_who_is_asked(config, asked):
    chosen, missing = observers(config)
    assert [one.name for one in chosen] == asked
    no_weights = config.model == "some/model"
    assert ("attributes/blip2" in missing) == no_weights


def test_weights_that_are_not_there_are_a_reason_or_an_error():
    assert "name a folder or a hub id" in question_observer("blip2", configured(GRID, model="some/model"))[1]
    with pytest.raises(UserError, match=r"observe\.questions\.blip2: nowhere\.d: no such file"):
        observers(configured(["a {person}"], readers=["blip2"], blip2="nowhere.d"))
    with pytest.raises(UserError, match=r"ask\.hair: expected the text"):
        observers(configured(GRID, ask={"hair": {}}))
