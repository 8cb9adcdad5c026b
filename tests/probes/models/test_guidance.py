"""A negative prompt without guidance is refused; what guidance is, is known before the model is loaded."""

import json
import shutil

import pytest

from probes.errors import UserError
from probes.models import loading
from probes.models.requirements import check_before_weights, guidance_scale, uses_guidance
from tests.probes.conftest import settings
from tests.probes.models.model_faults import change
from triptych.cli.main import main

YAML = "prompts: ['a {person}']\nmodel: toyworld\n"


def test_a_negative_prompt_without_guidance(tmp_path, capsys):
    """The benchmark models recommend a scale of 1: nothing is drawn without the prompt."""
    file = tmp_path / "a.yaml"
    for more, arguments, place in (
        ("", ["--negative-prompt", "ugly"], "--negative-prompt: "),
        ("sampler: {negative_prompt: ugly}", [], "a.yaml: sampler.negative_prompt: "),
        ("sampler: {negative_prompt: ugly, guidance_scale: 0.5}", [], "a.yaml: sampler.negative_prompt: "),
    ):
        file.write_text(YAML + more)
        for command in (["plan"], ["run", "--stage", "generate"]):
            assert main([*command, str(file), "--out", str(tmp_path / "run"), *arguments]) == 2
            captured = capsys.readouterr()
            assert (captured.out, captured.err.count("\n")) == ("", 1)
            assert captured.err.startswith(place + "expected guidance, without which")
    assert not (tmp_path / "run").exists()
    file.write_text(YAML + "sampler: {negative_prompt: ugly, guidance_scale: 1.5}")
    assert main(["plan", str(file), "--out", str(tmp_path / "run")]) == 0


def test_what_guides(saved, tmp_path):
    def source(card=None, **unet):
        folder = shutil.copytree(saved(), tmp_path / str(len(list(tmp_path.iterdir()))))
        change(folder, "unet/config.json", **unet)
        if card is not None:
            (folder / "triptych.json").write_text(json.dumps(card))
        return loading.resolve(str(folder), weights=False)

    plain, ugly = settings("x"), settings("x", sampler={"negative_prompt": "ugly"})
    assert guidance_scale(plain, source()) == 7.5 and uses_guidance(plain, source())
    one = source({"guidance_scale": 1.0})
    assert not uses_guidance(plain, one)
    assert uses_guidance(settings("x", sampler={"guidance_scale": 2.0}), one)
    assert not uses_guidance(settings("x", sampler={"guidance_scale": 1.0}), source())
    # a distilled U-Net takes the scale as an input, and diffusers calls it once
    distilled = source(time_cond_proj_dim=256)
    assert not uses_guidance(settings("x", sampler={"guidance_scale": 8.0}), distilled)
    check_before_weights(ugly, source())
    check_before_weights(plain, one)
    for without in (one, distilled):
        with pytest.raises(UserError, match=r"^sampler\.negative_prompt: expected guidance"):
            check_before_weights(ugly, without)
