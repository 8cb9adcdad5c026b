"""The professions: the paper's names, one sentence each, neutral but for the name itself."""

import csv
from pathlib import Path

from probes.prompts import sets
from probes.prompts.forms import PromptSource
from probes.prompts.neutral import exclusion_reason

REFERENCE = Path(__file__).parents[3] / "lab" / "papers" / "reference"
WORDS = {"neutral": ("person", "people"), "feminine": ("woman", "women"), "masculine": ("man", "men")}
TOPICS = sets.read("professions")["topics"]


def set_prompts(name, words=WORDS, **options):
    return sets.prompts(PromptSource(**{"from": name, **options}), words, "neutral", "toyworld")


def test_the_names_are_those_of_table_3_in_its_order():
    with (REFERENCE / "wu2025_table3_professions.csv").open(encoding="utf-8") as file:
        printed = [(row["topic"], row["profession"]) for row in csv.DictReader(file)]
    assert [(topic, name) for topic, entries in TOPICS.items() for name in entries] == printed
    assert [len(entries) for entries in TOPICS.values()] == [20] * 16


def test_no_sentence_has_another_word_for_a_human_or_stands_twice():
    said = [text for entries in TOPICS.values() for text in entries.values()]
    assert len(set(said)) == 320
    assert [text for text in said if exclusion_reason(f"a person {text}")[0]] == []


def test_the_members_differ_by_the_word_before_the_profession():
    prompts = {prompt.id: prompt.texts for prompt in set_prompts("professions")}
    assert len(prompts) == 320
    ecologist = prompts["science-ecologist"]
    assert ecologist["neutral"] == "an ecologist counts frogs at the edge of a pond"
    assert ecologist["feminine"] == "a female ecologist counts frogs at the edge of a pond"
    assert ecologist["masculine"] == "a male ecologist counts frogs at the edge of a pond"


def test_the_papers_article_and_other_words():
    words = {**WORDS, "old": ("old", "old"), "female": ("female", "females")}
    first = set_prompts("professions", words, articles="kept")[13]
    assert [first.texts[name].split(" counts")[0] for name in words] == [
        "an ecologist",
        "an female ecologist",
        "an male ecologist",
        "an old ecologist",
        "an female ecologist",
    ]
