"""Plain texts with levels, tables of them, and templates around them; and what is refused, in one line each."""

import pytest

from probes.config.schema import Config, load_config
from probes.errors import UserError
from probes.prompts.prompt import Prompt

NURSE = Prompt({"plain": "a nurse at work"}, levels={"profession": "nurse", "setting": "baseline"})
PILOT = Prompt({"plain": "a pilot"}, levels={"profession": "pilot"})


def loaded(folder, text):
    path = folder / "t.yaml"
    path.write_text(text, encoding="utf-8")
    return load_config(path)


def test_plain_texts_have_one_indicator_and_no_contrast():
    config = Config(
        prompts=["a nurse", {"text": "a pilot", "profession": "pilot", "levels": {"setting": "x"}, "id": "p"}]
    )
    assert config.resolved()["prompts"] == [
        {"plain": "a nurse"},
        {"plain": "a pilot", "id": "p", "levels": {"setting": "x", "profession": "pilot"}},
    ]
    assert list(config.indicators) == ["plain"] == [config.reference]
    assert config.contrasts == [] and not config.compares
    assert Config.model_validate(config.resolved()) == config


def test_one_side_takes_templates_or_texts():
    config = Config(indicators={"feminine": "woman"}, prompts=["a {person} at sea"])
    assert config.prompts == [Prompt(template="a {person} at sea")]
    assert config.reference == "feminine" and not config.compares
    assert Config(indicators={"f": "woman"}, prompts=["a queen"]).prompts == [Prompt({"f": "a queen"})]
    three = Config(indicators={"neutral": ["person", "human"]}, prompts=["a {person} at sea"])
    assert three.compares and list(three.indicators) == ["neutral", "human"]


def test_levels_may_stand_beside_a_text_of_several_words():
    prompts = [{"text": "a {person} in an office", "profession": "CEO"}]
    assert Config(prompts=prompts).prompts == [
        Prompt(template="a {person} in an office", levels={"profession": "CEO"})
    ]


def test_a_table_has_a_prompt_a_row_with_its_levels(tmp_path):
    (tmp_path / "p.csv").write_text(
        "prompt,profession,setting\na nurse at work,nurse,baseline\na pilot,pilot,\n"
    )
    assert loaded(tmp_path, "prompts: {table: p.csv}").prompts == [NURSE, PILOT]
    chosen = loaded(tmp_path, "prompts: {table: p.csv, text: prompt, levels: [profession]}").prompts
    assert [one.levels for one in chosen] == [{"profession": "nurse"}, {"profession": "pilot"}]


def test_every_text_stands_in_every_template(tmp_path):
    (tmp_path / "p.csv").write_text("id,text,profession\nn,a nurse,nurse\nq,a pilot,pilot\n")
    text = "prompts: {template: {photo: 'a photo of {}', oil: '{} in oil'}, texts: {table: p.csv}}"
    prompts = loaded(tmp_path, text).prompts
    assert [one.texts["plain"] for one in prompts] == [
        *("a photo of a nurse", "a photo of a pilot", "a nurse in oil", "a pilot in oil")
    ]
    assert prompts[2].levels == {"template": "oil", "text": "a nurse", "profession": "nurse"}
    assert [one.id for one in prompts] == ["photo-n", "photo-q", "oil-n", "oil-q"]


def test_templates_go_around_sets_grids_and_texts_of_each_indicator():
    around = {"template": ["{}", "a photo of {}"]}
    paired = Config(prompts=around | {"texts": ["a {person} at sea"]})
    assert [one.template for one in paired.prompts] == ["a {person} at sea", "a photo of a {person} at sea"]
    assert paired.compares
    of_set = Config(prompts=around | {"texts": {"from": "dalleval", "profession": ["nurse"]}})
    assert len(of_set.prompts) == 4 and of_set.prompts[3].levels["profession"] == "nurse"
    grid = Config(prompts=around | {"texts": {"grid": "a {person} {context}", "context": ["at sea"]}})
    assert grid.prompts[1].levels["context"] == "at sea"
    words = {"neutral": "a king", "feminine": "a queen", "masculine": "a prince"}
    free = Config(prompts=around | {"texts": [words]})
    assert (
        free.prompts[1].texts["feminine"] == "a photo of a queen"
        and free.prompts[1].levels["text"] == "a king"
    )


@pytest.mark.parametrize(
    ("prompts", "said"),
    [
        ("[a nurse, 'a {person}']", "t.yaml: prompts[0]: expected a text with one {person}, got none"),
        ("['a {persn} at sea']", "did you mean {person} for {persn}"),
        ("[{text: a nurse, age: 3}]", "prompts[0].age: expected a level, got 3: quote it"),
        ("{template: [a photo], texts: [a]}", "prompts.template[0]: expected a text with one {}"),
        ("{template: ['a {}']}", "prompts.texts: expected this key, found none: add it"),
        ("{template: ['a {}'], texts: {from: paintskills}}", "expected no level `template`"),
        ("{table: p.txt}", "p.txt: expected a table (.csv, .tsv, .jsonl, .xlsx, .parquet), got '.txt'"),
        ("{table: p.csv, text: sentence}", "expected a column `sentence`"),
        ("{table: twice.csv}", "twice.csv: line 3: expected prompts that stand once"),
        ("{table: open.csv}", "open.csv: line 3: expected a text in `text`"),
    ],
)
def test_what_is_refused_is_said_in_one_line(tmp_path, prompts, said):
    (tmp_path / "p.csv").write_text("prompt,profession\na nurse,nurse\n")
    (tmp_path / "p.txt").write_text("a nurse\n")
    (tmp_path / "twice.csv").write_text("text\na nurse\nA  nurse\n")
    (tmp_path / "open.csv").write_text("text,profession\na nurse,nurse\n,pilot\n")
    with pytest.raises(UserError) as found:
        loaded(tmp_path, f"prompts: {prompts}")
    assert said in str(found.value) and "\n" not in str(found.value)


def test_words_in_braces_need_an_indicator():
    with pytest.raises(UserError, match="indicators: expected an indicator for"):
        Config(indicators={}, prompts=["a {person}"])
    with pytest.raises(UserError, match=r"prompts\[1\]: expected {person} in every text or in none"):
        Config(indicators={"feminine": "woman"}, prompts=["a {person}", "a nurse"])
