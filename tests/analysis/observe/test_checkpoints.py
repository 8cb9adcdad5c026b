"""Checkpoints by path and name, read and fitted."""

import pytest
import torch
from safetensors.torch import save_model

from analysis.observe.checkpoints import find, fit, read_weights, sha256
from analysis.observe.objects.models import grounding_dino
from probes.errors import UserError


def test_a_file_by_path_and_by_name(tmp_path, monkeypatch):
    (tmp_path / "a.pth").write_bytes(b"abc")
    assert find(str(tmp_path / "a.pth"), "x") == tmp_path / "a.pth"
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    with pytest.raises(
        UserError, match=r"observe.detector: a.pth: no such file, and none of that name in .*torch"
    ):
        find("a.pth", "observe.detector")
    cached = tmp_path / "torch/hub/checkpoints/a.pth"
    cached.parent.mkdir(parents=True)
    cached.write_bytes(b"abc")
    assert find("a.pth", "x") == cached
    assert sha256(cached) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


@pytest.mark.parametrize("name", ["owner/model", "owner/model/folder/file.pth"])
def test_the_hub_out_of_reach(name):
    """Tests run offline: planning does not ask the hub, observing says that it gave nothing."""
    assert find(name, "observe.detector", fetch=False) is None
    with pytest.raises(UserError, match=rf"observe.detector: {name}: no such file, and the hub gave none"):
        find(name, "observe.detector")
    with pytest.raises(UserError, match="no such file: check the path"):
        find("/no/such/file.pth", "observe.detector", fetch=False)


def test_heads_that_layers_share_are_stored_once(tmp_path):
    """safetensors keeps one of several names of the same weights."""

    def shared():
        head = torch.nn.Linear(2, 2)
        return torch.nn.ModuleList([head, head, torch.nn.Linear(2, 2)])

    first, second = shared(), shared()
    save_model(first, str(tmp_path / "a.safetensors"))
    weights = read_weights(tmp_path / "a.safetensors", "x")
    assert len(weights) == 4
    fit(second, weights, path=tmp_path, field="x", what="a model")
    for name, value in second.state_dict().items():
        assert torch.equal(value, first.state_dict()[name])
    with pytest.raises(UserError, match=r"got 2 missing \(2.weight\), 1 unknown \(other\)"):
        kept = {name: value for name, value in weights.items() if not name.startswith("2")}
        fit(second, {**kept, "other": torch.ones(1)}, path=tmp_path, field="x", what="a model")


def test_a_detector_of_unknown_name(tmp_path):
    with pytest.raises(UserError, match=r"expected groundingdino_swint_ogc.pth or .* found neither"):
        grounding_dino.description(tmp_path / "other.pth")
