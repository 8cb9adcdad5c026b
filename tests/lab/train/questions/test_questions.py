"""Toyworld's answering network: its data, questions and training, and what the weights that are there answer."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from scipy.special import expit
from sklearn.metrics import accuracy_score, recall_score

from analysis.observe.observer import StoredImage
from analysis.observe.questions.toyworld_network import ANSWERS, AnswerNetwork, ImageEncoder, tokens_of
from analysis.observe.questions.toyworld_vqa import FOLDER, ToyworldVqa, load_network, toyworld_tokenizer
from lab.train.questions import __main__ as command
from lab.train.questions import page
from lab.train.questions.measure import BAR, Shown, gender_quality, of_components, readings, worn_quality
from lab.train.questions.phrasings import GENDER, Phrasings, gender_target
from lab.train.questions.pictures import QuestionedPictures, make_questioned
from probes.config.questions import paper_questions
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
    again = QuestionedPictures.load(tmp_path / "pictures.npz")
    assert (again.images == pictures.images).all() and (again.verdicts == pictures.verdicts).all()


def test_questions_name_what_they_ask_and_are_answered_from_the_labels(pictures):
    """Every drawn question names exactly one thing, by the words of the world, and is answered by its label."""
    phrasings, rng, world = Phrasings(), np.random.default_rng(0), load_world()
    known = {*world.attributes, *world.objects, *world.places}
    kinds = []
    for row in np.tile(np.arange(40), 5):
        drawn = phrasings.draw(pictures.labels[row], pictures.verdicts[row], rng)
        assert drawn.target.sum() == pytest.approx(1)
        if drawn.text in GENDER:
            kinds.append("gender")
            continue
        words = drawn.text.lower().rstrip("?").split()
        (thing,) = known & {*words} or known & {word.rstrip(",") for word in words}
        there = pictures.labels[row, THINGS.index(thing)]
        assert ANSWERS[drawn.target.argmax()] == ("yes" if there else "no"), drawn.text
        kinds.append(there)
    assert {*kinds} == {"gender", True, False}
    assert 0.25 < np.mean([kind is np.True_ or kind is True for kind in kinds]) < 0.55


def test_gender_is_to_be_told_as_surely_as_the_verdict_tells_it():
    target = dict(zip(ANSWERS, gender_target(1.7)))
    assert target["male"] == pytest.approx(expit(1.7)) and target["female"] == pytest.approx(expit(-1.7))
    assert dict(zip(ANSWERS, gender_target(0.3)))["unclear"] == 1


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
    assert command.main([*run.split(), "--stage", "pictures", "train", "export"]) == 0
    rows = [json.loads(line) for line in (work / "train.log.jsonl").read_text().splitlines()]
    assert all(np.isfinite([*row.values()]).all() for row in rows)
    made, kept = (load_file(folder / "model.safetensors") for folder in (weights, FOLDER))
    assert {name: (value.shape, value.dtype) for name, value in made.items()} == {
        name: (value.shape, value.dtype) for name, value in kept.items()
    }
    assert (weights / "model.json").read_bytes() == (FOLDER / "model.json").read_bytes()
    assert "8 renderings" in json.loads((weights / "recipe.json").read_text())["history"][0]
    assert command.main([*run.split(), "--stage", "train"]) == 0  # goes on from the checkpoint
    assert len((work / "history.txt").read_text().splitlines()) == 2


def test_what_a_stage_lacks_is_said_first(tmp_path, capsys):
    assert command.main(["--work", str(tmp_path), "--stage", "train"]) == 2
    assert "run --stage pictures before it" in capsys.readouterr().err
    assert command.main(["--weights", str(tmp_path), "--stage", "measure"]) == 2
    assert "run --stage export before it" in capsys.readouterr().err


def test_weights_that_do_not_fit_are_refused(tmp_path):
    for file in FOLDER.glob("*.*"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    settings = json.loads((tmp_path / "model.json").read_text())
    (tmp_path / "model.json").write_text(json.dumps({**settings, "layers": settings["layers"] + 1}))
    with pytest.raises(UserError, match="missing"):
        load_network(tmp_path)


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
    images = [StoredImage({}, "", pictures.images[0]), StoredImage({}, "", np.zeros((32, 64, 3), np.uint8))]
    one, other = reader.answers(images, [PAPER["gender"]])
    assert one[0].answer in ANSWERS and 0.2 < one[0].score <= 1
    assert other[0].answer is None and other[0].reason == "expected 64 × 64 pixels, got 32 × 64"


def test_shares_are_scikit_learns():
    rng = np.random.default_rng(2)
    there, yes = rng.random(50) < 0.4, rng.random(50) < 0.5
    got = worn_quality(["yes" if one else "no" for one in yes], there)
    assert got["right"] == pytest.approx(accuracy_score(there, yes), abs=1e-4)
    assert got["sensitivity"] == pytest.approx(recall_score(there, yes), abs=1e-4)
    assert got["specificity"] == pytest.approx(recall_score(~there, ~yes), abs=1e-4)
    undecided = worn_quality([None] * 50, there)
    assert (undecided["right"], undecided["undecided"]) == (0, 50)


def test_the_bayes_bound_is_what_the_verdict_reaches():
    """On renderings whose component is known the verdict's side is right as often as its posterior says."""
    shown = of_components(400, 5, through_vae=0)
    both = gender_quality(["male" if one > 0 else "female" for one in shown.verdicts], shown)
    error = np.sqrt(both["bayes"] * (1 - both["bayes"]) / 400)
    assert both["right"] == both["verdict_right"] == pytest.approx(both["bayes"], abs=4 * error)
    unsure = gender_quality([None] * 4, Shown(shown.images[:4], shown.labels[:4], shown.verdicts[:4]))
    assert unsure["undecided"] == 4 and unsure["as_verdict"] == 0 and unsure["male"] is None


def test_the_page_is_of_what_was_measured():
    there = (WEIGHTS.parents[2] / "docs" / "validation" / "questions.md").read_text(encoding="utf-8")
    assert there == page.page()
