"""Model folders and checkpoints whose files try to run code: each writes a file if it is ever run."""

from __future__ import annotations

import json
import pickle
import shutil
import zipfile
from pathlib import Path

import numpy as np

from probes.toyworld import WEIGHTS

CLASSES = {
    "AutoConfig": "evil.EvilConfig",
    "AutoModel": "evil.EvilModel",
    "AutoModelForCausalLM": "evil.EvilModel",
    "AutoModelForSeq2SeqLM": "evil.EvilModel",
    "AutoModelForImageTextToText": "evil.EvilModel",
    "AutoImageProcessor": "evil.EvilProcessor",
    "AutoProcessor": "evil.EvilProcessor",
    "AutoTokenizer": ["evil.EvilTok", "evil.EvilTok"],
}


class Payload:
    """What a pickle runs when it is read by a reader that trusts it."""

    def __init__(self, marker: Path):
        self.marker = marker

    def __reduce__(self):
        return Path.touch, (self.marker,)


def pickled(path: Path, marker: Path, *, zipped: bool = False) -> Path:
    """A pickle that touches `marker`, bare or in the zip file of torch's checkpoints."""
    data = pickle.dumps({"model": {"weight": Payload(marker)}}, protocol=2)
    if not zipped:
        path.write_bytes(data)
        return path
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("archive/data.pkl", data)
        file.writestr("archive/version", "3\n")
    return path


def evil_folder(folder: Path, marker: Path, model_type: str, *, weights: bool = True) -> Path:
    """A folder with the files of every library, each of which names ``evil.py`` or is a pickle.

    Parameters
    ----------
    marker
        The file that ``evil.py`` and the pickles make.
    model_type
        What ``config.json`` says it is.
    weights
        With safetensors where readers look for them first; else their pickles alone.
    """
    folder.mkdir(parents=True)
    code = f"open({str(marker)!r}, 'w').close()\nclass EvilTok: pass\nclass EvilConfig: pass\nclass EvilModel: pass\n"
    (folder / "evil.py").write_text(code + "class EvilProcessor: pass\nclass EvilPipeline: pass\n")
    shutil.copytree(folder, folder / "custom_generate")
    shutil.move(folder / "custom_generate/evil.py", folder / "custom_generate/generate.py")
    auto = {"auto_map": CLASSES, "trust_remote_code": True, "custom_pipeline": str(folder)}
    inner = {"model_type": "evil", **auto}
    described = {
        "config.json": {"model_type": model_type, "text_config": inner, "vision_config": inner, **auto},
        "tokenizer_config.json": {"tokenizer_class": "EvilTok", **auto},
        "preprocessor_config.json": {"image_processor_type": "EvilProcessor", **auto},
        "processor_config.json": {"processor_class": "EvilProcessor", **auto},
        "generation_config.json": {"custom_generate": str(folder), **auto},
        "model_index.json": {"_class_name": ["evil", "EvilPipeline"], "unet": ["evil", "EvilModel"], **auto},
    }
    clip = json.loads((WEIGHTS / "clip/open_clip_config.json").read_text())
    arguments = {"trust_remote_code": True}
    clip["model_cfg"]["text_cfg"] |= {"hf_tokenizer_name": "x", "tokenizer_kwargs": arguments}
    described["open_clip_config.json"] = clip
    for name, data in described.items():
        (folder / name).write_text(json.dumps(data))
    names = ["pytorch_model.bin", "model.pth", "E_scene_light_BalanceAlb.tar", "E_albedo_BalanceAlb.tar"]
    for name in (*names, "open_clip_pytorch_model.bin", "ram_tag_list.txt"):
        pickled(folder / name, marker, zipped=name.endswith("tar"))
    for name in ("unet", "vae", "text_encoder", "tokenizer", "scheduler"):
        (folder / name).mkdir()
        (folder / name / "config.json").write_text(json.dumps(inner))
        pickled(folder / name / "diffusion_pytorch_model.bin", marker)
    np.savez(folder / "BalanceAlb_model.npz", mean=np.array([Payload(marker)]), tex_dir=np.zeros(3))
    shutil.copy(WEIGHTS.parents[2] / "docs/images/triplet.png", folder / "skin_for_ita_mask_cheeks.png")
    if weights:
        tensors = (WEIGHTS / "clip/open_clip_model.safetensors").read_bytes()
        for name in ("open_clip_model.safetensors", "model.safetensors"):
            (folder / name).write_bytes(tensors)
    return folder


def runs(read) -> bool:
    """Whether reading something raises nothing that says that it did not run: for the check of these files."""
    try:
        read()
    except Exception:  # an object of a foreign class fits nowhere, after it has run
        return False
    return True
