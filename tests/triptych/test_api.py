"""The functions of ``import triptych``: what they take for a configuration, and what they refuse in a line."""

from pathlib import Path

import numpy as np
import pytest

import triptych
from probes.config.schema import Trace
from probes.errors import UserError
from triptych.api import config_or_path, flatten_changes
from triptych.request import read_request

PROMPTS = ["a {person} with a dog", "a {person} reading a book"]


def asked(config, **changes):
    return read_request(config_or_path(config), flatten_changes(changes), quiet=True)


def test_a_mapping_a_config_and_a_file_are_the_same(tmp_path):
    (tmp_path / "run.yaml").write_text(
        "prompts:\n- a {person} with a dog\n- a {person} reading a book\nseeds: [3]\n"
    )
    mapping = {"prompts": tuple(PROMPTS), "seeds": np.array([3])}
    config = triptych.Config(prompts=PROMPTS, seeds=[3])
    found = [asked(one).config for one in (tmp_path / "run.yaml", mapping, config)]
    assert found[0] == found[1] == found[2]


def test_a_change_of_a_section_leaves_the_rest_of_it():
    config = triptych.Config(prompts=PROMPTS, sampler={"steps": 9})
    config = asked(config, sampler={"guidance_scale": 2.0}, seeds=range(2)).config
    assert (config.sampler.steps, config.sampler.guidance_scale, config.seeds) == (9, 2.0, [0, 1])
    config = asked(config, indicators={"neutral": "nurse", "feminine": "woman", "masculine": "man"}).config
    assert config.indicators["neutral"].word == "nurse" and config.sampler.steps == 9


def test_an_empty_section_asks_for_one_with_its_defaults():
    config = triptych.Config(prompts=PROMPTS, sampler={"steps": 9})
    assert asked(config, trace={}, sampler={}).config.trace == Trace()
    assert asked(config, trace={}, sampler={}).config.trace == Trace()
    assert asked(asked(config, trace={}).config, trace=None).config.trace is None


def test_what_is_kept_of_a_configuration_in_python():
    request = asked({"prompts": PROMPTS}, sampler={"steps": 4}, out=Path("runs/x"))
    assert request.passed == {
        "file": {"prompts": PROMPTS},
        "command_line": {},
        "changes": {"sampler.steps": 4, "out": "runs/x"},
    }
    assert request.yaml_source.text == "prompts:\n- a {person} with a dog\n- a {person} reading a book\n"


@pytest.mark.parametrize(
    ("config", "changes", "expected"),
    [
        (
            {"prompts": PROMPTS},
            {"steps": 4},
            "steps: unknown field, got 4: did you mean sampler={'steps': ...}?",
        ),
        ({"prompts": PROMPTS}, {"overwrit": True}, "did you mean overwrite?"),
        (
            {"prompts": PROMPTS},
            {"sampler": {"stpes": 4}},
            "sampler.stpes: unknown key, got 4: did you mean `steps`?",
        ),
        (
            5,
            {},
            "config: expected the path of triplets.yaml or of a run, a mapping or a triptych.Config, got 5",
        ),
        ("nowhere.yaml", {}, "nowhere.yaml: expected a YAML file, found none"),
    ],
)
def test_what_is_wrong_is_one_line(config, changes, expected):
    with pytest.raises(UserError) as raised:
        asked(config, **changes)
    assert expected in str(raised.value) and "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"sampler": {"steps": -1}}, "Config: sampler.steps: expected"),
        ({"seeds": "one", "model": 5}, "(1 more like this)"),
    ],
)
def test_a_config_in_python_says_in_one_line_what_is_wrong(fields, expected):
    with pytest.raises(UserError) as raised:
        triptych.Config(**({"prompts": PROMPTS} | fields if fields else {}))
    assert expected in str(raised.value) and "\n" not in str(raised.value)
    assert triptych.Config.model_validate({"prompts": PROMPTS}, context={"loaded": []}) == triptych.Config(
        prompts=PROMPTS
    )


def test_a_stage_is_one_of_the_stages():
    with pytest.raises(UserError, match=r"stage: expected a stage, got 'measur': did you mean measure\?"):
        triptych.run({"prompts": PROMPTS}, stage="measur")
