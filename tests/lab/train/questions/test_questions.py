"""Toyworld's answering network: its data, questions and training, and what the weights that are there answer."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from sklearn.metrics import accuracy_score, recall_score

from analysis.observe.observer import StoredImage
from analysis.observe.questions.toyworld_network import ANSWERS, AnswerNetwork, ImageEncoder, tokens_of
from analysis.observe.questions.toyworld_vqa import FOLDER, ToyworldVqa, toyworld_tokenizer
from analysis.questions import paper_questions
from lab.train import networks, pages
from lab.train.detectors.pictures import Pictures, make_questioned
from lab.train.pages import WORN_BAR as BAR
from lab.train.questions.measure import readings, worn_quality
from probes.errors import UserError
from probes.toyworld import WEIGHTS
from probes.toyworld.checker import THINGS, read_images
from probes.toyworld.verdict import verdict
from probes.toyworld.world import load_world

PAPER = paper_questions()


@pytest.fixture(scope="module")
def pictures():
    """Forty unseen renderings."""
    return make_questioned(40, 77, through_vae=0, empty=0)


@pytest.fixture(scope="module")
def reader():
    reader = ToyworldVqa()
    reader.load(torch.device("cpu"))
    return reader


def test_labels_are_the_checkers_and_verdicts_those_of_all_that_is_seen(pictures, tmp_path):
    seen = read_images(pictures.images)
    assert (seen[list(THINGS)].to_numpy(bool) == pictures.labels).all()
    np.testing.assert_allclose(pictures.verdicts, verdict(seen, ["a person"] * 40, load_world()))
    assert np.isnan(make_questioned(2, 3, through_vae=0, empty=1).verdicts).all()
    pictures.save(tmp_path / "pictures.npz")
    again = Pictures.load(tmp_path / "pictures.npz")
    assert (again.images == pictures.images).all() and (again.verdicts == pictures.verdicts).all()


def test_a_question_is_answered_alike_alone_and_beside_longer_ones(pictures):
    """Padding and the other questions of a batch alter nothing."""
    torch.manual_seed(0)
    model, tokenizer = AnswerNetwork().eval(), toyworld_tokenizer()
    texts = ["a tie?", "the person looks like a male or a female?", "Is the person wearing boots?"]
    tags, places = ImageEncoder(torch.device("cpu"))(list(pictures.images[:2]))

    def logits(chosen, rows):
        tokens, lengths = tokens_of(tokenizer, chosen, model.settings["context_length"])
        shape = (len(rows), *tokens.shape)
        return model((tags[rows], places[rows]), tokens.expand(shape), lengths.expand(shape[:2]))

    with torch.inference_mode():
        together = logits(texts, [0, 1])
        for row in range(2):
            for column, text in enumerate(texts):
                alone = logits([text], [row])[0, 0]
                torch.testing.assert_close(alone, together[row, column], rtol=1e-4, atol=1e-5)


def test_the_recipe_makes_what_is_shipped(tmp_path):
    work, weights = tmp_path / "work", tmp_path / "weights"
    run = f"--work {work} --weights {weights} --pictures 8 --steps 2 --batch 2"
    assert networks.TRAINERS["vqa"].main("vqa", run.split()) == 0
    rows = [json.loads(line) for line in (work / "train.log.jsonl").read_text().splitlines()]
    assert all(np.isfinite([*row.values()]).all() for row in rows)
    made, kept = (load_file(folder / "model.safetensors") for folder in (weights / "vqa", FOLDER))
    assert {name: (value.shape, value.dtype) for name, value in made.items()} == {
        name: (value.shape, value.dtype) for name, value in kept.items()
    }
    assert (weights / "vqa" / "model.json").read_bytes() == (FOLDER / "model.json").read_bytes()
    assert "'pictures': 8" in json.loads((weights / "vqa" / "recipe.json").read_text())["history"][0]
    assert networks.TRAINERS["vqa"].main("vqa", [*run.split(), "--stage", "train"]) == 0  # from these weights
    assert len((work / "history.txt").read_text().splitlines()) == 3


def test_the_weights_are_small_and_answer_what_is_worn(reader, pictures):
    """Above the page's bar less three standard errors of so few pictures, on what it was never shown."""
    assert (FOLDER / "model.safetensors").stat().st_size <= 1.5e6
    asked = [one for key, one in PAPER.items() if key != "gender"]
    said = np.array(readings(reader, pictures.images, asked))
    there = pictures.labels[:, [THINGS.index(one.key) for one in asked]]
    right = (said == "yes") == there
    assert right.mean() > BAR - 3 * np.sqrt(BAR * (1 - BAR) / right.size)
    (gender,) = zip(*readings(reader, pictures.images, [PAPER["gender"]]))
    clear = np.abs(pictures.verdicts) > 3
    agrees = np.array([one == "male" for one in gender]) == (pictures.verdicts > 0)
    assert agrees[clear].mean() > 0.9


def test_an_image_of_another_size_is_not_asked(reader, pictures):
    shown, other = (StoredImage({}, "", one) for one in (pictures.images[0], np.zeros((32, 64, 3), np.uint8)))
    ((one,),) = reader.answers([shown], [PAPER["gender"]])
    assert one.answer in ANSWERS and 0.2 < one.score <= 1
    with pytest.raises(UserError, match="expected images of 64 × 64 pixels, got 32 × 64"):
        reader.answers([shown, other], [PAPER["gender"]])


def test_shares_are_scikit_learns():
    rng = np.random.default_rng(2)
    there, yes = rng.random(50) < 0.4, rng.random(50) < 0.5
    got = worn_quality(["yes" if one else "no" for one in yes], there)
    assert got["right"] == pytest.approx(accuracy_score(there, yes), abs=1e-4)
    assert got["sensitivity"] == pytest.approx(recall_score(there, yes), abs=1e-4)
    assert got["specificity"] == pytest.approx(recall_score(~there, ~yes), abs=1e-4)
    undecided = worn_quality([None] * 50, there)
    assert (undecided["right"], undecided["undecided"]) == (0, 50)


def test_the_page_is_of_what_was_measured():
    there = (WEIGHTS.parents[2] / "docs" / "validation" / "questions.md").read_text(encoding="utf-8")
    assert there == pages.questions_page()
