"""The everyday nouns: lemmas, none twice, COCO's categories and the paper's examples among them, like ones apart."""

import csv
from pathlib import Path

from analysis.observe.objects.tags import tags
from analysis.observe.objects.tags.tags import normal, read_vocabulary
from probes.prompts.grammar.nouns import DEFINITION_2, lemma

# Wu et al. 2025, sections 5.3 and 6.2 to 6.3: what they say was detected
OF_THE_PAPER = """
    suspender, suit, bow tie, bikini top, legging, earring, family, child, baseball team, skateboarder, golfer, salad,
    meal, cotton candy, businessman, kitchenware, umbrella, table, shirt, goggles, kitchen, restaurant, tree, road,
    basket, park, grass, cocktail dress, bikini, dress, boot, player, football player, basement, cabinet, dinner party,
    passenger train, building, field, carpet, store, bodybuilder, football team, instrument, apron, backdrop,
    dirt field, stone building, tennis court, flower
"""


def rows():
    file = Path(tags.__file__).with_name("everyday.csv")
    return list(csv.DictReader(line for line in file.open(encoding="utf-8") if line[0] != "#"))


def test_lemmas_as_they_are_looked_for():
    names = read_vocabulary("everyday")
    assert 400 <= len(names) <= 1000 and len(set(names)) == len(names)
    assert names == [row["noun"] for row in rows()]
    assert [name for name in names if normal(name) != name or lemma(name) != name] == []


def test_who_named_them():
    named = {row["noun"]: row["named_by"].split() for row in rows()}
    assert {source for sources in named.values() for source in sources} == {"coco", "wu2025"}
    assert sum("coco" in sources for sources in named.values()) == 80
    paper = {" ".join(name.split()) for name in OF_THE_PAPER.split(",")}
    assert {name for name, sources in named.items() if "wu2025" in sources} == paper
    assert {lemma(word) for word in DEFINITION_2} <= set(named)  # what tells persons apart is looked for
