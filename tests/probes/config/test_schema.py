"""triplets.yaml: defaults, what stands over what, and one clear line for every fault."""

import json
from pathlib import Path

import pytest
import yaml

from analysis.study import indicators
from probes.config import checks
from probes.config.schema import Config, Measure, Sampler, build_config, load_config
from probes.errors import UserError
from probes.fields.yaml import parse_yaml
from triptych import run_plan

PROMPTS = "prompts: ['a {person} with a dog']\n"


def config(text, options=None):
    source = parse_yaml(text, "triplets.yaml")
    return build_config(source.data, source, options)


def test_defaults_are_in_place():
    found = config(PROMPTS)
    assert {name: i.word for name, i in found.indicators.items()} == {
        "neutral": "person",
        "feminine": "woman",
        "masculine": "man",
    }
    assert (found.reference, found.contrasts, found.seeds) == ("neutral", [["masculine", "feminine"]], [0])
    assert found.sampler.steps == 30
    assert found.sampler.guidance_scale is None


def test_resolved_is_taken_again_unchanged():
    found = config(
        PROMPTS + "seeds: {count: 3, start: 5}\nindicators: {neutral: person, a: {word: b, control: true}}"
    )
    assert found.seeds == [5, 6, 7]
    assert Config.model_validate(found.resolved()) == found


CAPTIONS = "prompts: [{id: a, neutral: a person, feminine: a woman, masculine: a man}]\n"


@pytest.mark.parametrize(
    "text",
    [
        PROMPTS,
        CAPTIONS,
        PROMPTS + "seeds: {count: 3, start: 5}\nlimit: 1\nmeasure: {equivalence: {ssim: 1}, level: 0.5}\n",
        PROMPTS + "indicators: {neutral: person, a: {word: b, control: true}, c: d}\ncontrasts: [[a, c]]\n",
        PROMPTS + "observe: {tags: [prompt], box_threshold: 1}\ncapture: {sites: [unet.*], keep: [latent]}\n",
    ],
)
def test_what_a_run_stores_is_read_as_it_was_checked(text):
    found = config(text)
    assert Config.stored(json.loads(json.dumps(found.resolved()))) == found


def test_what_a_record_does_not_say_is_empty_and_sections_have_their_defaults():
    found = Config.stored({"measure": {"level": 0.9, "former": 1}, "former": {"x": 1}})
    assert (found.indicators, found.contrasts, found.prompts, found.seeds, found.model) == (
        {},
        [],
        [],
        [],
        "",
    )
    assert found.sampler == Sampler() and found.measure == Measure(level=0.9)
    with pytest.raises(ValueError, match="Sampler: expected fields, got 3"):
        Config.stored({"sampler": 3})


def test_reading_a_run_checks_nothing_of_the_world():
    """What it names may be gone since, such as a model or a definition that only the program that made it knows."""
    resolved = {
        **config(PROMPTS).resolved(),
        "model": "/gone/model",
        "capture": {"definition": "mine"},
        "measure": {"nouns": "former"},
        "prompts": ["no place for a word"],
    }
    found = Config.stored(resolved)
    assert (found.model, found.capture.definition, found.measure.nouns) == ("/gone/model", "mine", "former")
    assert repr(found.prompts) == "['no place for a word']"
    with pytest.raises(ValueError, match="definition"):
        Config.model_validate(resolved)


def test_a_control_stands_for_the_reference_or_for_another_indicator():
    found = config(
        PROMPTS + "indicators: {neutral: person, feminine: woman, masculine: man, "
        "human: {word: human, control: true}, lady: {word: lady, control: feminine}}"
    )
    assert [indicator.control for indicator in found.indicators.values()] == [False] * 3 + [True, "feminine"]
    assert [member.control for member in indicators(found)] == ["", "", "", "neutral", "feminine"]
    assert Config.model_validate(found.resolved()) == found


def test_command_line_over_yaml_over_defaults():
    text = PROMPTS + "sampler: {steps: 7, guidance_scale: 2}\n"
    found = config(
        text, {("sampler", "steps"): ("--steps", 9), ("generate", "dtype"): ("--dtype", "float16")}
    )
    assert (found.sampler.steps, found.sampler.guidance_scale) == (9, 2.0)
    assert (found.generate.dtype, found.measure.bootstrap) == ("float16", 2000)


def test_name_defaults_to_the_file(tmp_path):
    (tmp_path / "mine.yaml").write_text(PROMPTS)
    assert load_config(tmp_path / "mine.yaml").out_path.as_posix() == "runs/mine"


def test_contrasts_are_every_pair_of_the_others():
    """Neither the reference nor controls; the order of the indicators, masculine before feminine."""
    people = "indicators: {neutral: person, %s}"
    for others, expected in {
        "old: elder": [],
        "woman: woman, man: man": [["woman", "man"]],
        "doctor: doctor, nurse: nurse, chef: chef": [
            ["doctor", "nurse"],
            ["doctor", "chef"],
            ["nurse", "chef"],
        ],
        "feminine: woman, masculine: man": [["masculine", "feminine"]],
        "feminine: woman, nonbinary: enby, masculine: man": [
            ["feminine", "nonbinary"],
            ["masculine", "feminine"],
            ["nonbinary", "masculine"],
        ],
        "a: b, c: {word: d, control: true}, e: {word: f, control: a}": [],
    }.items():
        assert config(PROMPTS + people % others).contrasts == expected
    assert config(PROMPTS + "indicators: {neutral: a, b: c, d: e}\ncontrasts: []").contrasts == []
    ten = "indicators: {neutral: person, " + ", ".join(f"i{i}: w{i}" for i in range(9)) + "}"
    assert len(config(PROMPTS + ten).contrasts) == 36


FAULTS = {
    "prompts: ['a {person}', a dog]": ("prompts[1]: expected a text with one {person}, got none",),
    "prompts: ['{person} and {person}']": ("prompts[0]: expected a text with one {person}, got 2",),
    "prompts: ['a {person} {x}']": ("prompts[0]: expected no braces but {person}",),
    "prompts:\n  - 'a {person}'\n  - no": (
        "prompts[1]: expected a text with one {person}, got False (YAML reads a bare `no` as False)",
    ),
    "prompts:\n  - {person} walking": ("line 2: not valid YAML", "in quotes"),
    "prompts: [a {person} in a hat, a {person}]": ("line 1: not valid YAML", "between [ and ] in quotes"),
    "seeds: [0]": ("prompts: expected this key",),
    PROMPTS + "sampler:\n  steps: 3\n  steps: 4": ("sampler: key `steps` stands twice, on lines 3 and 4",),
    PROMPTS + "seed: [1]": ("seed: unknown key", "did you mean `seeds`?"),
    PROMPTS + "sampler: {seed: 3}": (
        "sampler.seed: unknown key, got 3: did you mean `seeds`, outside of `sampler`?",
    ),
    PROMPTS + "indicators: {neutral: person, feminine: no}": (
        "indicators.feminine",
        "YAML reads a bare `no` as False",
    ),
    PROMPTS + "seeds: [0, one]": ("seeds[1]: expected an integer, got 'one'",),
    PROMPTS + "seeds: [010]": ("seeds[0]: expected a plain decimal number, got `010` (YAML reads it as 8)",),
    PROMPTS + "seeds: [3, 3]": ("seeds[1]: 3 stands twice",),
    PROMPTS + "seeds: many": ("seeds: expected a list of integers or {count: N, start: S}, got 'many'",),
    PROMPTS + "sampler: {guidance_scale: 1e-3}": ("sampler.guidance_scale: expected a number, got '1e-3'",),
    PROMPTS + "name: 2024-01-01": ("name: expected a text", "as a date"),
    PROMPTS + "reference: person": (
        "reference: expected one of ['neutral', 'feminine', 'masculine'], got `person`",
    ),
    PROMPTS + "contrasts: [[masculine, neutral]]": ("contrasts[0]: expected two different ones of",),
    PROMPTS + "indicators: {}": ("indicators: expected an indicator for {person} in the prompts, got none",),
    PROMPTS + "indicators: {neutral: {word: a, control: true}, b: c}": ("indicators.neutral",),
    PROMPTS + "indicators: {neutral: a, b: c, d: {word: e, control: f}}": (
        "indicators.d.control: expected true (the reference) or one of ['neutral', 'b'], got `f`",
    ),
    PROMPTS + "indicators: {neutral: person, non-binary: enby}": ("got `non-binary`: rename it",),
    PROMPTS + "capture: {definition: dam}": ("capture.definition: expected one of daam, ", "got 'dam'"),
    "prompts: ['a {person}', 'b {person}', 'a {person}']": ("prompts[2]: the same as prompts[0]",),
    "prompts: ['a {person}', {text: 'A {person}', id: again}]": ("prompts[1]: the same as prompts[0]",),
    "prompts: [{neutral: a, feminine: b}]": (
        "prompts[0]: expected a text for each of",
        "without `masculine`",
    ),
    "prompts: [{neutral: a, feminine: b, masculine: no}]": ("prompts[0].masculine", "bare `no`"),
    "prompts: [{id: p001, neutral: a, feminine: b, masculine: c}, 'a {person}']": ("prompts[1]: id `p001`",),
    PROMPTS + "indicators: {neutral: person, b: ' Person '}": ("indicators.b: expected a word that differs",),
    "prompts: [{neutral: a nurse, feminine: A  nurse, masculine: c}]": (
        "prompts[0]: expected a text that differs",
        "`neutral` and `feminine`",
    ),
    PROMPTS + "contrasts: [[masculine, feminine], [feminine, masculine]]": (
        "contrasts[1]: the same pair as contrasts[0]",
    ),
    "- a\n- b": ("expected `key: value` lines",),
}


@pytest.mark.parametrize("text", FAULTS, ids=range(len(FAULTS)))
def test_faults_are_one_line_that_names_the_place(text, tmp_path):
    file = tmp_path / "triplets.yaml"
    file.write_text(text)
    with pytest.raises(UserError) as caught:
        load_config(file)
    message = str(caught.value)
    assert message.startswith("triplets.yaml: ")
    assert "\n" not in message
    for part in FAULTS[text]:
        assert part in message


@pytest.mark.parametrize(
    ("written", "formats"),
    [
        ("true", ["svg"]),
        ("false", []),
        ("[]", []),
        ("[pdf, png]", ["pdf", "png"]),
        (["pdf,png"], ["pdf", "png"]),
    ],
)
def test_formats_of_figures(written, formats):
    text = PROMPTS if isinstance(written, list) else f"{PROMPTS}report: {{figures: {written}}}\n"
    flag = {("report", "figures"): ("--figures", written)} if isinstance(written, list) else None
    assert config(text, flag).report.figures == formats


@pytest.mark.parametrize("written", ["tif", "[tif]", "[pdf, pdf]", "1"])
def test_a_wrong_format_of_figures_is_one_line(written):
    with pytest.raises(UserError, match=r"^triplets.yaml: report.figures.*: (expected|'pdf' stands twice)"):
        config(f"{PROMPTS}report: {{figures: {written}}}\n")


def test_a_byte_order_mark_and_a_missing_file(tmp_path):
    (tmp_path / "a.yaml").write_bytes(b"\xef\xbb\xbf" + PROMPTS.encode())
    assert load_config(tmp_path / "a.yaml").resolved()["prompts"] == ["a {person} with a dog"]
    (tmp_path / "b.yaml").write_bytes(b"prompts: ['\xff']")
    for path, found in (("b.yaml", "UTF-8"), ("c.yaml", "found none"), (".", "got a folder")):
        with pytest.raises(UserError, match=found):
            load_config(tmp_path / path)


def test_few_prompts_are_told_what_they_cannot_show():
    """Of 2^n equally likely signs two are as extreme as the most extreme."""
    prompts = [f"a {{person}} {n}" for n in "abcdefgh"]
    for count, floor in ((1, "1"), (2, "0.5"), (3, "0.25"), (4, "0.125"), (5, "0.0625")):
        said = run_plan.few_prompts_warning(Config(prompts=prompts[:count]))
        assert f"can fall below {floor}: 6 or more" in said
    assert run_plan.few_prompts_warning(Config(prompts=prompts[:6])) == ""
    assert run_plan.few_prompts_warning(Config(prompts=prompts, limit=2))
    assert run_plan.few_prompts_warning(Config(prompts=prompts[:6], measure={"level": 0.99}))
    assert run_plan.few_prompts_warning(Config(prompts=prompts[:2], contrasts=[])) == ""


def test_a_preset_lies_under_what_is_written():
    """Fields of sections one by one, indicators in whole, the command line over all; the outcome is recorded."""
    text = (
        PROMPTS
        + "preset: wu2025\nsampler: {steps: 3}\nmeasure: {theta: 0.5}\nindicators: {neutral: person, she: lady}\n"
    )
    found = config(text, {("measure", "sigma"): ("--sigma", 0.6)})
    assert (found.sampler.steps, found.sampler.scheduler, found.sampler.guidance_scale) == (3, "pndm", 7.5)
    assert (found.sampler.height, found.sampler.width) == (512, 512)
    assert (found.measure.theta, found.measure.sigma, found.measure.sigma_human) == (0.5, 0.6, 0.25)
    assert (found.measure.nouns, found.observe.tags, list(found.indicators)) == (
        "nltk",
        ["ram"],
        ["neutral", "she"],
    )
    assert found.model == "CompVis/stable-diffusion-v1-4" and found.preset == "wu2025"
    again = Config.model_validate(found.resolved())
    assert again == found
    assert Config.stored(found.resolved()).sampler == found.sampler


def test_an_unknown_preset_is_told_which_there_are():
    with pytest.raises(UserError, match=r"^triplets\.yaml: preset: expected .*'wu2025'.*, got 'wu2024'"):
        config(PROMPTS + "preset: wu2024\n")


@pytest.mark.parametrize("file", sorted((Path(checks.__file__).parent / "presets").iterdir()))
def test_presets_are_whole_sections_of_the_schema(file):
    """Each value is taken by the schema as it stands in the file."""
    said = yaml.safe_load(file.read_text("utf-8"))
    found = Config(preset=file.stem, prompts=["a {person}"]).resolved()
    for key, value in said.items():
        if key == "indicators":
            assert {each: entry["word"] for each, entry in found[key].items()} == value
        elif isinstance(value, dict):
            assert {field: found[key][field] for field in value} == value
        else:
            assert found[key] == value
