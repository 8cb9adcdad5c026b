"""Captions of one person, made neutral: compared with captions worked by hand, before the rule and after."""

import csv
from pathlib import Path

import pytest

from probes.prompts.captions import neutral_prompts
from probes.prompts.forms import PromptSource
from probes.prompts.neutral import NO_PERSON
from probes.prompts.people import NAME, ONE_GENDER, SEVERAL
from probes.runs.run import Run
from triptych.cli.main import main

WORDS = {"neutral": ("person", "people"), "feminine": ("woman", "women"), "masculine": ("man", "men")}
REASONS = {"two": SEVERAL, "human": SEVERAL, "none": NO_PERSON, "name": NAME, "one": ONE_GENDER}
with Path(__file__).with_name("people_captions.csv").open(encoding="utf-8", newline="") as file:
    CASES = list(csv.DictReader(file, delimiter="|", quoting=csv.QUOTE_NONE))
# of the forty that were written after the rule, which was not changed for them
MISSES = {
    "The fisherman and a tourist look at the catch",  # "look" is tagged as a noun
    "A chemist hands him a bottle",  # taken for the chemist
    "A singer, a woman in black, holds a microphone",
    "A young businessman, a florist by training, waters his plants",
}


def prompts(captions, words=WORDS, **options):
    source = PromptSource(**{"from": "captions.txt", "rule": "one person", **options})
    return neutral_prompts(captions, words, source, "neutral")


def test_captions_become_the_triplets_by_hand_or_have_the_reason():
    for case in CASES:
        read = prompts([case["caption"]])
        texts = [list(prompt.texts.values()) for prompt in read.prompts]
        right = [[case[name] for name in WORDS]] if not case["reason"] else []
        assert (texts != right) == (case["caption"] in MISSES), (case["caption"], texts, read.dropped)
        if case["reason"] and case["caption"] not in MISSES:
            assert [*read.dropped] == [REASONS[case["reason"]]], case["caption"]


@pytest.mark.parametrize(
    ("name", "count", "triplets"), [("easy", 30, 25), ("hard", 30, 16), ("held out", 40, 26)]
)
def test_nine_of_ten_captions_of_one_person_become_right_triplets(name, count, triplets):
    chosen = [case for case in CASES if case["set"] == name]
    people = [case for case in chosen if not case["reason"]]
    assert (len(chosen), len(people)) == (count, triplets)
    assert sum(case["caption"] not in MISSES for case in people) >= 0.9 * len(people)


@pytest.mark.parametrize(
    ("caption", "expected"),
    [
        ("A CEO and her bag", "A CEO and their bag|A lady CEO and her bag|An adult CEO and their bag"),
        ("An actor waits", "A performer waits|A lady performer waits|An adult performer waits"),
        ("He waits", "A person waits|A lady waits|An adult waits"),
        (
            "A man’s cup, he’s ill",
            "A person’s cup, they're ill|A lady’s cup, she’s ill|An adult’s cup, they're ill",
        ),
        (
            "A New York cop waits",
            "A New York cop waits|A lady New York cop waits|An adult New York cop waits",
        ),
    ],
)
def test_other_words_and_articles(caption, expected):
    words = {"neutral": ("person", "people"), "lady": ("lady", "ladies"), "adult": ("adult", "adults")}
    assert [list(prompt.texts.values()) for prompt in prompts([caption], words).prompts] == [
        expected.split("|")
    ]


def test_the_paper_takes_neutral_captions_alone_and_names_stay_in_them():
    captions = ["A man waves", "A person waves", "A person beside Sarah"]
    assert len(prompts(captions, rule="wu2025").prompts) == 2
    assert prompts(captions).dropped == {NAME: 1}


def test_a_table_says_what_was_replaced_and_why_others_are_left_out(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("photos.txt").write_text("a man and his dog\nSarah and a man\na man and a boy\na nurse\na person\n")
    Path("triplets.yaml").write_text("prompts: {from: photos.txt}\n")
    assert main(["plan", "triplets.yaml", "--captions", "table.csv"]) == 0
    said = capsys.readouterr()
    assert "captions of photos.txt are taken" in said.err and "such as “a man and his dog”" in said.err
    assert "one word for neutral, feminine, masculine: no synonym control" in said.out
    assert main(["run", "triplets.yaml", "--out", "run", "--stage", "generate", "--steps", "1"]) == 0
    rows = list(csv.DictReader(Path("run/captions.csv").read_text("utf-8").splitlines()))
    assert Path("table.csv").read_bytes() == Path("run/captions.csv").read_bytes()
    assert rows[0] | {"number": 1} == {
        **{"number": 1, "id": "c000001", "caption": "a man and his dog", "left_out": ""},
        **{"replaced": "man → person; his → their", "neutral": "a person and their dog"},
        **{"feminine": "a woman and her dog", "masculine": "a man and his dog"},
    }
    assert [row["left_out"] for row in rows[1:]] == [f"{NAME}: Sarah", f"{SEVERAL}: boy", "", ""]
    assert Run.open("run").config.prompts[0].id == "c000001"
    Path("triplets.yaml").write_text("prompts: ['a {person}']\n")
    assert main(["plan", "triplets.yaml", "--captions", "table.csv"]) == 2
    assert "--captions: expected prompts from a file of captions" in capsys.readouterr().err.splitlines()[-1]
