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
from analysis.observe.features.weights import place
from analysis.observe.observer import Observer
from probes.errors import UserError
from probes.models.pretrained import open_clip_tokenizer, readable
from probes.runs import parts
from probes.runs.run import Run

TEXTS = pa.schema([("text", pa.string()), ("vector", pa.list_(pa.float32()))])
CHUNK = 256  # sentences embedded at a time


def embed_texts(run: Run, observers: Sequence[Observer]) -> None:
    """Store the sentences' embeddings in ``features/<name>_texts``, once for a run, where an audit asks for them."""
    asked, kind = audit.texts(run.config), f"features/{audit.clip_name(run.config)}"
    observer = next((one for one in observers if isinstance(one, FeatureObserver) and one.name == kind), None)
    if asked and observer is not None:
        store_vectors(run, observer, "texts", asked)


def store_vectors(run: Run, observer: FeatureObserver, name: str, texts: Sequence[str]) -> Path:
    """Store texts' embeddings by the CLIP of an observer in ``features/<feature>_<name>``, unless they are there."""
    path, network = run.part_path(f"{observer.name}_{name}", 0), observer.model
    fields = {**network.identity(), "texts": parts.digest("\n".join(texts))}
    wanted = parts.identity(0, fields, parts.OBSERVED_FORMAT)
    if not path.exists() or parts.read_identity(path).get("hash") != wanted["hash"]:
        vectors = text_vectors(network.feature, network.path, texts, observer.device)
        rows = [{"text": text, "vector": vector.tolist()} for text, vector in zip(texts, vectors)]
        parts.write_part(path, rows, TEXTS, wanted)
    return path


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
