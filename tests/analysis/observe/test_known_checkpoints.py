"""Published checkpoints by name: size, command, and the line that says what a preset lacks before anything is drawn."""

import pytest

from analysis.observe import checkpoints, missing
from analysis.observe.checkpoints import find
from analysis.observe.objects.models import grounding_dino
from probes.config.schema import Config
from probes.errors import LIMIT, UserError
from tests.analysis.observe.tiny_models import save_text_encoder
from triptych.cli.main import main

PROMPTS = ["a {person} with a dog"]
FILES = ("groundingdino_swint_ogc.pth", "sam_vit_h_4b8939.pth", "ram_swin_large_14m.pth")


@pytest.fixture
def bare(tmp_path, monkeypatch):
    """A machine without checkpoints and NLTK's data; gives torch's folder of checkpoints."""
    import nltk

    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    monkeypatch.setattr(nltk.data, "path", [])
    return tmp_path / "torch/hub/checkpoints"


def test_each_known_checkpoint_has_a_size_and_a_command():
    for name in checkpoints.known():
        command = checkpoints.command(name)
        assert checkpoints.size(name).split()[1] in ("MB", "GB")
        if name.endswith((".pth", ".pth.tar")):  # curl keeps the name that the address ends with
            assert command.startswith("curl -L ") and command.endswith(f"/{name}")
        else:
            assert command.startswith(f"hf download {name} ")


def test_a_known_file_that_is_not_there_is_told_with_size_and_command(bare):
    name = FILES[0]
    with pytest.raises(UserError) as caught:
        find(name, "observe.detector")
    line = str(caught.value)
    assert len(line) <= LIMIT and line.endswith(checkpoints.command(name).split()[-1])
    assert checkpoints.size(name) in line


def no_text_encoder(name):
    """As where neither the hub nor its cache gives one, whatever this machine has."""
    raise UserError(f"observe.text_encoder: {name}: expected a folder")


def test_all_that_a_preset_lacks_stands_in_one_line(bare, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(grounding_dino, "text_encoder", no_text_encoder)
    file = tmp_path / "triplets.yaml"
    file.write_text(f"preset: wu2025\nprompts: {PROMPTS}\nout: {tmp_path / 'run'}\n")
    for command in ("run", "plan"):
        assert main([command, str(file)]) == 2
        line = capsys.readouterr().err
        assert line.count("\n") == 1 and line.startswith("preset wu2025: not on this machine: ")
        for name in (*FILES, "bert-base-uncased"):
            assert f"{name} ({checkpoints.size(name)})" in line
        assert "measure.nouns: nltk" in line and "docs/how_to/models.md" in line
    assert not (tmp_path / "run").exists()


def test_what_is_there_or_not_asked_for_is_not_missing(bare, tmp_path):
    bare.mkdir(parents=True)
    for name in FILES:
        (bare / name).write_bytes(b"")
    encoder = str(save_text_encoder(tmp_path / "bert"))
    over = {"observe": {"text_encoder": encoder}, "measure": {"nouns": "hanta"}}
    assert missing.absent(Config(preset="wu2025", prompts=PROMPTS, **over)) == []
    nothing = Config(preset="wu2025", prompts=PROMPTS, observe={"objects": False})
    assert missing.absent(nothing) == ["what measure.nouns: nltk needs"]
    bundled = Config(prompts=PROMPTS)
    assert missing.absent(bundled) == []
    missing.require_preset(bundled)
