"""A run whose prompts ask for skills, of renderings instead of a model's images."""

import pytest

from lab.validate.skills.scenes import draw_scene, scene
from probes.config.schema import Config
from probes.prompts import paintskills
from probes.runs import parts, schemas
from probes.runs.run import Run
from probes.toyworld.palette import paint
from tests.analysis.observe.stored_images import png

PROMPTS, WRONG, BROKEN = 60, 3, 7


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Renderings as a model's images, but for one that shows another prompt's and one that is no picture."""
    path = tmp_path_factory.mktemp("runs") / "skills"
    config = Config(prompts={"from": "toyworld-skills"}, limit=PROMPTS, seeds=[0, 1], report={"gallery": 6})
    asked = paintskills.requested_skills(config)
    rows = []
    for triplet, one in enumerate(asked):
        shown = asked[triplet + 9] if triplet == WRONG else one
        for seed in config.seeds:
            data = png(paint(draw_scene(scene(shown, f"{seed}"))))
            prompt = config.prompts[triplet]
            rows.append(
                {
                    **dict.fromkeys(schemas.SAMPLES.names),
                    **{"tokens": [], "word_spans": []},
                    "sample_id": f"t{triplet:05d}-s{seed}-prompt",
                    "triplet": triplet,
                    "prompt_id": prompt.id,
                    "template": "",
                    "indicator": "prompt",
                    "word": "prompt",
                    "prompt": prompt.texts["prompt"],
                    "negative_prompt": "",
                    "seed": seed,
                    "noise_seed": seed,
                    "image": {"bytes": b"none" if triplet == BROKEN else data, "path": "x.png"},
                }
            )
    parts.write_part(path / "samples" / "part-00000.parquet", rows, schemas.SAMPLES, parts.identity(0, {}))
    resolved = config.resolved() | {"limit": None, "prompts": config.resolved()["prompts"][:PROMPTS]}
    Run(path, {}).write_meta(
        format=parts.FORMAT, status="generated", parts=1, config={"passed": {}, "resolved": resolved}
    )
    return Run.open(path)
