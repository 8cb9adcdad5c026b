"""Embeddings of the sentences that an audit of attributes asks for, by the CLIP that embedded its images."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import torch

from analysis.observe.features import attribute_audit as audit
from analysis.observe.features.embedder import Embedder
from analysis.observe.features.observer import FeatureObserver
from analysis.observe.features.registry import Feature
from analysis.observe.features.weights import identity, place
from analysis.observe.observer import Observer
from probes.errors import UserError
from probes.models.devices import pick_device
from probes.models.pretrained import open_clip_tokenizer, readable
from probes.runs import parts
from probes.runs.run import Run

TEXTS = pa.schema([("text", pa.string()), ("vector", pa.list_(pa.float32()))])
CHUNK = 256  # sentences embedded at a time


def embed_texts(run: Run, observers: Sequence[Observer]) -> None:
    """Store the sentences' embeddings in ``features/<name>_texts``, once for a run, where an audit asks for them."""
    asked, kind = audit.texts(run.config), f"features/{audit.clip_name(run.config)}"
    observer = next((one for one in observers if isinstance(one, FeatureObserver) and one.kind == kind), None)
    if not asked or observer is None:
        return
    path = run.part_path(f"{observer.kind}_texts", 0)
    fields = {**identity(observer.feature, observer.path), "texts": parts.digest("\n".join(asked))}
    wanted = parts.identity(0, fields, parts.OBSERVED_FORMAT)
    if path.exists() and parts.read_identity(path).get("hash") == wanted["hash"]:
        return
    device = pick_device(run.config.observe.device, "observe.device", prefer=run.config.generate.device)
    vectors = text_vectors(observer.feature, observer.path, asked, device)
    rows = [{"text": text, "vector": vector.tolist()} for text, vector in zip(asked, vectors)]
    parts.write_part(path, rows, TEXTS, wanted)


def text_vectors(feature: Feature, path: Path, texts: Sequence[str], device: torch.device) -> torch.Tensor:
    """Embed sentences; shape ``(n, d)``, float32 on the CPU."""
    if feature.library != "open_clip":
        raise UserError(f"gep.clip: expected a CLIP, got {feature.name!r}, which reads no text: name clip")
    return encoded(Embedder(feature, path, device), path, texts)


def encoded(embedder: Embedder, path: Path, texts: Sequence[str]) -> torch.Tensor:
    """Embed sentences by a CLIP that is loaded from a path; shape ``(n, d)``, float32 on the CPU."""
    model = embedder.model
    with readable(f"{place(embedder.feature)}: {path}", "a CLIP with its tokenizer"), torch.inference_mode():
        tokenizer = open_clip_tokenizer(model, path if path.is_dir() else None)
        tokens = tokenizer(list(texts)).to(embedder.device)
        return torch.cat([model.encode_text(some).float().cpu() for some in tokens.split(CHUNK)])
