"""Every file that ``triptych init`` writes is a configuration, and so are the lines that it offers as comments."""

import json
import re
from functools import partial

import pytest
from PIL import Image

from probes.config import schema
from probes.config.schema import Config
from probes.models import hub
from probes.stages.external_images.configuration import complete_configuration
from tests.probes.models.test_additions import save_lora
from tests.runs import one_line
from tests.tiny import KINDS, tiny_pipeline
from tests.tiny_transformers import tiny_transformer_pipeline
from triptych.cli import init
from triptych.cli.main import main

load_config = partial(schema.load_config, read_images=complete_configuration)
OFFERED = re.compile(r"^# (?=(\w+): )", re.M)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Images of another program, and a folder to write to."""
    pictures, rows = tmp_path / "pictures", ["file,prompt,indicator,seed"]
    pictures.mkdir()
    for name, word in {"neutral": "person", "feminine": "woman", "masculine": "man"}.items():
        file = f"a {word} in a hat_{name}_11.png"
        Image.effect_noise((64, 64), 50).convert("RGB").save(pictures / file)
        rows.append(f"{file},a {word} in a hat,{name},11")
    (pictures / "metadata.csv").write_text("\n".join(rows))
    captions = [f"a person with {number} cats" for number in range(24)]
    (tmp_path / "captions.json").write_text(json.dumps(captions))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("start", init.STARTS)
def test_each_file_loads(start, folder, capsys):
    assert main(["init", "--for", start]) == 0
    assert capsys.readouterr().out == "wrote triplets.yaml; next: triptych plan triplets.yaml\n"
    config = load_config(folder / "triplets.yaml")
    text = (folder / "triplets.yaml").read_text("utf-8")
    assert f"runs/{config.name}" in text and len(text.splitlines()) <= 50
    assert config.contrasts == [["masculine", "feminine"]] or config.contrasts == [["feminine", "masculine"]]
    if config.model in hub.known_models():
        assert f"#   {hub.download_command(config.model, None, config.variant)}\n" in text
        assert "withdrawn" not in hub.known_models()[config.model]
    said = re.search(r"[=:] (\d+) images", text)
    if config.images is None:
        images = len(config.prompts) * len(config.indicators) * len(config.seeds)
        assert said and int(said[1]) == images


@pytest.mark.parametrize("start", init.STARTS)
def test_what_it_offers_in_comments_loads_too(start, folder):
    text = init.start_text(start)
    for found in OFFERED.finditer(text):
        key = found[1]
        if key not in Config.model_fields:
            continue
        rest = text[: found.start()] + text[found.end() :]
        taken = [
            line
            for line in rest.splitlines()
            if not (line.startswith(f"{key}:") and line in text.splitlines())
        ]
        (folder / "offered.yaml").write_text("\n".join(taken), "utf-8")
        load_config(folder / "offered.yaml")
        assert len(taken) == len(text.splitlines()) - any(l.startswith(f"{key}:") for l in text.splitlines())


# for models that cannot be had here a tiny one of the same class
TINY = {"sd15": "sd1", "lora": "sd1", "sdxl": "sdxl", "xl-lora": "sdxl", "sd3": "sd3", "sd35": "sd35"}
TINY |= {"flux": "flux-dev", "flux2": "flux2-klein", "qwen": "qwen-image"}


@pytest.mark.parametrize(
    "start", [pytest.param(one, marks=pytest.mark.slow if one in ("sd15", "sdxl") else ()) for one in TINY]
)
def test_models_of_the_hub_can_be_planned(start, folder, capsys):
    kind = TINY[start]
    (tiny_pipeline if kind in KINDS else tiny_transformer_pipeline)(kind).save_pretrained(folder / "tiny")
    lora = "lora" in start
    if lora:
        save_lora(folder, kind).rename(folder / "style.safetensors")
    assert main(["init", "first.yaml", "--for", start]) == 0
    assert main(["plan", "first.yaml", "--model", "tiny"]) == 0
    said = capsys.readouterr().out
    assert (
        f"\n{216 if start == 'sd15' else 72} images, " in said
        and ("lora[0]: style.safetensors " in said) == lora
    )


@pytest.mark.parametrize("start", [start for start in init.STARTS if start not in TINY])
def test_what_needs_no_download_can_be_planned(start, folder, capsys):
    assert main(["init", "first.yaml", "--for", start]) == 0
    assert main(["plan", "first.yaml"]) == 0
    assert (
        "contrasts, nearness to neutral (person): masculine (man) - feminine (woman)"
        in capsys.readouterr().out
    )


def test_a_file_that_is_there_is_not_replaced_by_mistake(folder, capsys):
    (folder / "triplets.yaml").write_text("years of work")
    assert main(["init"]) == 2
    one_line(capsys.readouterr(), "triplets.yaml: expected no file yet, found one", "--overwrite")
    assert (folder / "triplets.yaml").read_text() == "years of work"
    assert main(["init", "--overwrite"]) == 0
    assert load_config(folder / "triplets.yaml").model == "toyworld"
    assert main(["init", "--for", "sd4"]) == 2
    assert "invalid choice: 'sd4'" in capsys.readouterr().err


def test_every_start_has_its_file():
    from importlib.resources import files

    there = {
        file.name for file in (files("triptych.cli") / "starts").iterdir() if file.name.endswith(".yaml")
    }
    assert there == {f"{name}.yaml" for name in (*init.STARTS, "common")}
