"""On a real run of the toy world, what was asked for is explicit and what was planted beside it is implicit."""

import pytest

from analysis.loaded_run import load_run
from probes.toyworld.scene import parse
from probes.toyworld.world import load_world
from triptych.cli.main import main

YAML = """\
name: groups
model: toyworld
indicators: {neutral: person, feminine: woman, masculine: man}
prompts:
  - a {person} standing on a skateboard
  - a {person} with a dog in the park
  - a {person} holding an umbrella
  - a {person} in a hat with a guitar
  - a {person} in a suit with gloves
  - a {person} next to a cat in the kitchen
seeds: [0, 1]
sampler: {steps: 8}
capture: {sites: [image], definition: DEFINITION}
observe: {features: []}
measure: {bootstrap: 50, permutations: 64}
"""


@pytest.mark.slow
@pytest.mark.parametrize("definition", ["daam", "self-refined"])
def test_what_was_asked_for_is_explicit_and_what_was_not_is_implicit(tmp_path, capsys, definition):
    (tmp_path / "groups.yaml").write_text(YAML.replace("DEFINITION", definition))
    asked = [str(tmp_path / "groups.yaml"), "--out", str(tmp_path / "run"), "--quiet", "--stage"]
    for stage in ("generate", "observe", "measure"):
        assert main([*asked, stage]) == 0, capsys.readouterr().err
    run, world = load_run(tmp_path / "run"), load_world()
    samples = run.run.samples(["sample_id", "prompt"]).set_index("sample_id")["prompt"]
    objects = run.table("objects").query("object >= 0 and label != 'person'")
    named = [
        label in parse(samples[sample], world).things
        for sample, label in zip(objects["sample_id"], objects["label"])
    ]
    for group, wanted in (("explicitly", True), ("implicitly", False)):
        own = objects.loc[[asked == wanted for asked in named], "group"]
        assert len(own) >= 40 and own.str.startswith(group).mean() >= 0.9
    assert set(objects["maps"]) == {definition}
