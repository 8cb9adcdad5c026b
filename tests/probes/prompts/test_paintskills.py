"""Prompts of PaintSkills: the paper's numbers, how they are said, the runs they make, and one line for what is none."""

import csv
from collections import Counter
from pathlib import Path

import pytest

from probes.config.schema import Config, load_config
from probes.errors import UserError
from probes.prompts import paintskills, sets
from probes.prompts.paintskills import AXES, SKILLS, SkillRequest, prompt_text, skill_requests
from probes.prompts.prompt import asks_for_skills

REFERENCE = Path(__file__).parents[3] / "lab" / "papers" / "reference"
SET = sets.read("paintskills")
# as the paper prints them, section 3.2
SCENES = {
    "train": {"object": 23_250, "count": 21_600, "spatial": 13_500},
    "test": {"object": 2_325, "count": 2_160, "spatial": 2_700},
}


def table(name):
    with (REFERENCE / f"dalleval2023_{name}.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("split", SCENES)
@pytest.mark.parametrize("skill", SKILLS)
def test_the_papers_numbers_of_scenes(split, skill):
    config = Config(prompts={"from": "paintskills", "skill": [skill], "split": split})
    assert len(config.prompts) * len(config.seeds) == SCENES[split][skill]
    assert list(config.indicators) == ["prompt"] and config.contrasts == []
    assert asks_for_skills(config)


def test_templates_and_objects_are_the_printed_ones():
    printed = [(row["skill"], row["template"]) for row in table("table10_paintskills_templates")]
    assert [(skill, text) for skill in SKILLS for text in SET["skills"][skill]["templates"]] == printed
    names = {"bike": "bike", "person": "human/person"}
    assert [names.get(one, one) for one in SET["objects"]] == [
        row["object"].lower() for row in table("paintskills_objects")
    ]


def test_every_combination_stands_once_and_a_beginning_is_even():
    for skill in SKILLS:
        everything = [one for _, one in skill_requests(skill, SET)]
        assert len({tuple(one.levels.values()) for one in everything}) == len(everything)
        for axis in AXES[skill]:
            numbers = Counter(getattr(one, axis) for one in everything[:300])
            even = 300 / len(numbers)
            assert len(numbers) == len({getattr(one, axis) for one in everything})
            assert all(abs(number - even) <= 0.1 * even for number in numbers.values())
    both = Counter((one.object, one.count) for _, one in skill_requests("count", SET)[:60])
    assert set(both.values()) == {1}


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (SkillRequest("object", "fire hydrant", "inside the photo, there is one <objA>"), None),
        (SkillRequest("count", "umbrella", "<N> <objA>", 3), "3 umbrellas"),  # printed in Table 15
        (
            SkillRequest("count", "person", "<N_EN> <objA> are in the image", 4),
            "four people are in the image",
        ),
        (SkillRequest("count", "bus", "Q: how many <objA> are there? A: <N_EN>", 1), None),
        (
            SkillRequest(
                "spatial", "boat", "a <objB> is <rel> a <objA>", object_b="umbrella", relation="left"
            ),
            "an umbrella is left to a boat",  # printed in Table 15
        ),
    ],
)
def test_how_a_prompt_is_said(asked, expected):
    others = {
        "fire hydrant": "inside the photo, there is one fire hydrant",
        "bus": "Q: how many buses are there? A: one",
    }
    assert prompt_text(asked, SET) == (expected or others[asked.object])


def test_prompts_of_the_same_words_have_noise_of_their_own():
    from probes.stages.plan import plan

    tokenizer = _tokenizer()
    config = Config(
        prompts=[
            {"id": "a", "prompt": "one dog", "levels": {"skill": "object", "object": "dog"}},
            {"id": "b", "prompt": "one dog", "levels": {"skill": "count", "object": "dog", "count": "1"}},
        ],
        indicators={"prompt": "prompt"},
        reference="prompt",
    )
    first, second = plan(config, [tokenizer])
    assert first.prompt == second.prompt == "one dog"
    assert first.noise_seed != second.noise_seed
    assert first.indicator_positions == () and len(first.word_positions) == 2
    assert paintskills.requested_skills(config) == [
        SkillRequest("object", "dog"),
        SkillRequest("count", "dog", count=1),
    ]


def _tokenizer():
    from transformers import CLIPTokenizer

    from probes.toyworld import SHARED, WEIGHTS

    return CLIPTokenizer.from_pretrained(WEIGHTS / SHARED / "tokenizer")


def test_other_objects_and_what_was_said_stays():
    config = Config(
        prompts={"from": "paintskills", "skill": ["object"], "object": ["apple", "owl"]}, seeds=[7], limit=3
    )
    assert config.seeds == [7] and len(config.prompts) == 62
    assert paintskills.requested_skills(config)[0] == SkillRequest("object", "apple", "<objA>")
    words = Config(prompts={"from": "toyworld-skills", "skill": ["count"]}, capture={"words": True})
    assert words.capture.words
    stored = Config.stored(config.resolved())
    assert asks_for_skills(stored) and paintskills.requested_skills(stored) == paintskills.requested_skills(
        config
    )


LEVELS = "{prompt: a, levels: {%s}}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("prompts: {from: paintskills, skill: [colour]}", "prompts.skill[0]: expected 'object', 'count' or"),
        (
            "prompts: {from: gep, skill: [count]}",
            "prompts.skill: expected a set that takes it (paintskills, toyworld-skills), got 'gep'",
        ),
        (
            "prompts: {from: paintskills, skill: [count], split: dev}",
            "prompts.split: expected train or test",
        ),
        ("prompts: {from: paintskills}", "seeds: the skills have different numbers of scenes a prompt"),
        (f"indicators: {{prompt: x}}\nprompts: [{LEVELS % 'skill: colour'}]", "levels: expected a skill of"),
        (
            f"indicators: {{prompt: x}}\nprompts: [{LEVELS % 'skill: count, object: dog, count: two'}]",
            "levels: expected a count from 1 to 100, got 'two'",
        ),
        (
            f"indicators: {{prompt: x}}\nprompts: [{LEVELS % 'skill: spatial, object: a, object_b: b, relation: in'}]",
            "levels: expected above, below, left or right, got 'in'",
        ),
    ],
)
def test_a_bad_one_is_one_line(tmp_path, text, expected):
    path = tmp_path / "skills.yaml"
    reference = "reference: prompt\n" if text.startswith("indicators") else ""
    path.write_text(reference + text + "\n", encoding="utf-8")
    with pytest.raises(UserError) as caught:
        load_config(path)
    assert expected in str(caught.value) and "\n" not in str(caught.value)
