"""Checkpoints of published layouts with random weights: FAN by face-alignment where it is installed, and TRUST."""

import io

import numpy as np
import pytest
import torch
from PIL import Image

from analysis.observe.observer import StoredImage
from analysis.observe.skin import trust as skin_trust
from analysis.observe.skin.faces import FaceSkin
from analysis.observe.skin.observer import KIND, SkinToneObserver
from analysis.observe.skin.trust import Trust, encoder, face_crop, scene_square
from probes.config.schema import Config
from probes.errors import UserError
from tests.analysis.observe.skin.test_observer import FACE, GivenFaces


def test_without_the_library_a_line_says_what_installs_it(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"found none: run pip install .*\[faces\]'"):
        FaceSkin("landmarks.pth", "detector.pth")


def test_without_its_files_a_line_says_what_trust_needs(tmp_path):
    with pytest.raises(UserError, match=r"found no E_scene_light_BalanceAlb.tar: register at"):
        Trust(str(tmp_path))


def test_the_crop_is_a_square_about_the_landmarks():
    rows, columns = np.mgrid[0:300, 0:200]
    image = np.stack([columns, rows % 256, np.zeros_like(rows)], -1).astype(np.uint8)
    crop = face_crop(image, FACE + np.array([40, 90]))
    inner = np.sort(FACE + np.array([40, 90]), axis=0)[[1, -2]]
    side = int(np.mean(inner[1] - inner[0]) * 1.6)
    left, top = inner.mean(0) - side / 2
    expected = left + np.arange(224) * side / 223  # corners of the square on the middles of the corner pixels
    np.testing.assert_allclose(crop[112, :, 0] * 255, expected, atol=0.01)
    np.testing.assert_allclose(crop[:, 112, 1] * 255, top + np.arange(224) * side / 223, atol=0.01)
    assert (face_crop(image, FACE - 500) == 0).all()
    square = scene_square(image)
    assert square.shape == (224, 224, 3) and square[0, 0, 1] * 255 == pytest.approx(50, abs=1)


def save_trust(folder, seed=0):
    """Files as the published test code reads them; the albedo is a mean and a little of each component."""
    torch.manual_seed(seed)
    for name, key, shape in (
        (skin_trust.SCENE_LIGHT, "E_scene_light", (3, 3)),
        (skin_trust.ALBEDO, "E_albedo", (6, 54)),
        ("E_face_light_BalanceAlb.tar", "E_face_light", (3, 27)),
    ):
        torch.save({key: encoder(*shape).state_dict()}, folder / name)
    rng = np.random.default_rng(seed)
    mean = np.empty((512, 512, 3), np.float32)
    mean[:] = (67, 92, 130)  # Monk tone 7, blue first
    basis = rng.normal(0, 0.02, (512 * 512 * 3, 54)).astype(np.float16)
    np.savez(folder / skin_trust.TEXTURE, mean=mean, tex_dir=basis)
    mask = np.zeros((512, 512), np.uint8)
    mask[200:260, 100:160] = 255
    Image.fromarray(mask).convert("RGB").save(folder / skin_trust.MASK)


@pytest.mark.slow
def test_trust_reads_the_albedo_of_published_files(tmp_path):
    save_trust(tmp_path)
    trust = Trust(str(tmp_path))
    trust.load("cpu")
    image = np.random.default_rng(1).integers(0, 256, (240, 260, 3), dtype=np.uint8)
    landmarks = FACE * 1.5 + 20
    albedo = trust.albedo(image, landmarks)
    assert albedo.shape == (30 * 30, 3) and (albedo >= 0).all() and (albedo <= 1).all()

    # the same by the names in the files, without our classes
    import torch.nn.functional as F
    from torchvision.models import resnet50

    def outputs(name, key, pictures):
        weights = torch.load(tmp_path / name, weights_only=True)[key]
        network = resnet50(weights=None)
        network.conv1 = torch.nn.Conv2d(pictures.shape[1], 64, 7, 2, 3, bias=False)
        network.fc = torch.nn.Identity()
        network.load_state_dict(
            {n.removeprefix("encoder."): w for n, w in weights.items() if n.startswith("encoder.")}
        )
        hidden = F.linear(network.eval()(pictures), weights["layers.0.weight"], weights["layers.0.bias"])
        return F.linear(F.relu(hidden), weights["layers.2.weight"], weights["layers.2.bias"])

    with torch.no_grad():
        pictures = [
            torch.tensor(one.transpose(2, 0, 1)[None], dtype=torch.float32)
            for one in (scene_square(image), face_crop(image, landmarks))
        ]
        light = outputs(skin_trust.SCENE_LIGHT, "E_scene_light", pictures[0])
        planes = light.reshape(1, 3, 1, 1).repeat(1, 1, 224, 224)
        code = outputs(skin_trust.ALBEDO, "E_albedo", torch.cat([planes, pictures[1]], 1))
    with np.load(tmp_path / skin_trust.TEXTURE) as data:
        mean, basis = data["mean"] / 255, data["tex_dir"].astype(np.float32) / 255
    texture = (
        torch.tensor(mean.reshape(-1) + basis @ code[0].numpy()).reshape(1, 512, 512, 3).permute(0, 3, 1, 2)
    )
    texture = F.interpolate(texture, [256, 256])[0, [2, 1, 0]].permute(1, 2, 0).numpy()
    expected = texture[100:130, 50:80].reshape(-1, 3).clip(0, 1)
    np.testing.assert_allclose(albedo, expected, atol=1e-4)
    assert np.ptp(albedo, axis=0).min() > 1e-3  # the coefficients show in it

    observer = SkinToneObserver(
        Config(prompts=["a {person}"], observe={"skin_tone": {"illumination": "trust", "trust": "x"}}),
        GivenFaces(landmarks),
        trust,
    )
    row = observer.observe([StoredImage({}, "", image)])[KIND][0]
    assert (row["status"], row["tone"], row["illumination"], row["pixels"]) == ("ok", 7, "trust", 900)
    assert {name for name in observer.fields() if "trust/" in name} == {
        f"observe.skin_tone.illumination.trust/{name}" for name in skin_trust.FILES
    }


def npz_bytes(**arrays):
    """The bytes of an ``.npz``."""
    data = io.BytesIO()
    np.savez(data, **arrays)
    return data.getvalue()


@pytest.mark.parametrize(
    "data",
    [
        b"PK\x03\x04 cut short",
        npz_bytes(mean=np.zeros(3)),
        npz_bytes(mean=np.zeros(3), tex_dir=np.zeros(5)),
    ],
    ids=["cut", "one-array", "sizes"],
)
def test_a_texture_that_is_none(tmp_path, data):
    for name in skin_trust.FILES:
        (tmp_path / name).touch()
    (tmp_path / skin_trust.TEXTURE).write_bytes(data)
    with pytest.raises(
        UserError, match=rf"^{skin_trust.PLACE}: .*{skin_trust.TEXTURE}: expected .*: download it again$"
    ):
        _ = Trust(str(tmp_path))._texture


@pytest.mark.slow
def test_fan_loads_checkpoints_of_the_published_layout(tmp_path):
    pytest.importorskip("face_alignment")
    from face_alignment.api import FAN
    from face_alignment.detection.sfd.net_s3fd import s3fd

    torch.manual_seed(0)
    detector = {name: torch.zeros_like(value) for name, value in s3fd().state_dict().items()}
    for name, value in detector.items():
        if name.endswith("mbox_conf.bias"):
            value[:-1], value[-1] = 10, -10  # nothing is a face
    torch.save(FAN(4).state_dict(), tmp_path / "landmarks.pth")
    torch.save(detector, tmp_path / "detector.pth")
    found = FaceSkin(str(tmp_path / "landmarks.pth"), str(tmp_path / "detector.pth"))
    found.load("cpu")
    image = np.random.default_rng(0).integers(0, 256, (96, 96, 3), dtype=np.uint8)
    assert found.faces(image) == []
    found._network.face_detector.detect_from_image = lambda picture: [np.array([20, 20, 80, 80, 0.9])]
    (landmarks,) = found.faces(image)
    assert landmarks.shape == (68, 2) and np.isfinite(landmarks).all()

    torch.save({"conv1.weight": torch.zeros(1)}, tmp_path / "other.pth")
    with pytest.raises(UserError, match="expected the weights of FAN of four stacks, got"):
        FaceSkin(str(tmp_path / "other.pth"), str(tmp_path / "detector.pth")).load("cpu")
