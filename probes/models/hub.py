"""Models of the Hugging Face hub: from its cache or fetched, pinned to a commit; what to run where it gives none.

A revision (a branch, a tag, a commit) is resolved once, when the description is asked for; everything else is read at
the commit it stands for, which ``run.json`` keeps.
"""

from __future__ import annotations

import contextlib
import difflib
import socket
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

import yaml

from hooks.architectures.registry import generating_pipelines
from probes.errors import UserError, first_line, parse_json
from probes.models import single_file
from probes.models.pretrained import download_pipeline, quiet
from probes.models.source import IMAGE_READERS, INDEX, SCHEDULER, SUPPORTED, VOCABULARIES, Source
from probes.models.weights import stored_weights
from probes.toyworld import REGISTRY, bundled_folder

Row = tuple[str, str, str]
_PATIENCE = 2.0  # seconds; a hub that is there takes a connection in a fraction of one
_UNREACHED = "not in the cache, and the hub can't be reached"


@cache
def known_models() -> Mapping[str, Mapping[str, Any]]:
    """Return what ``known_models.yaml`` has on each hub id: number of parameters, unofficial copy, ..."""
    return yaml.safe_load((files(__package__) / "known_models.yaml").read_text(encoding="utf-8"))


def size_in_gigabytes(identifier: str, variant: str | None = None) -> float | None:
    """Return the size in 10^9 bytes of the weights of a hub model that Triptych reads; None for an unknown model."""
    entry = known_models().get(identifier)
    half = entry is not None and (entry.get("transformer") or variant == "fp16")
    return entry["parameters"] * (2 if half else 4) / 1e9 if entry else None


def download_command(identifier: str, revision: str | None = None, variant: str | None = None) -> str:
    """Return the ``hf download`` command line that fetches those files of a hub pipeline that Triptych reads."""
    weights = [f"*/*model.{variant}*.safetensors"] if variant else ["*/*model.safetensors"]
    if (
        known_models().get(identifier, {}).get("transformer")
    ):  # in several files each, with vocabularies of other kinds
        weights += ["*/*model-*.safetensors", "tokenizer*/*"]
    at = f" --revision {revision}" if revision else ""
    included = " ".join(f'--include "{pattern}"' for pattern in ("*.json", "*.txt", *weights))
    return f"hf download {identifier}{at} {included}"


def is_cached(identifier: str) -> bool:
    """Return whether the hub's cache on this machine holds all files of a supported model; asks no network."""
    from huggingface_hub import try_to_load_from_cache

    index = try_to_load_from_cache(identifier, INDEX)
    if not isinstance(index, str):
        return False
    folder = Path(index).parent
    try:
        return not missing_components(Source(identifier, "hub", folder, folder))
    except UserError:  # damaged, or of another architecture by now
        return False


def missing_components(source: Source, weights: bool = True) -> list[str]:
    """Return the names of a model's components that lack a file: configuration, tokenizer, or weights if asked."""

    def holds(*names: str) -> bool:
        """Return whether one of these files is in the model's folder."""
        return any((source.path / name).is_file() for name in names)

    missing = []
    for one in source.layout.networks:
        _, stored, variant = stored_weights(source, one.name)
        given = one is source.layout.denoiser and source.added.gguf
        complete = given or not weights or variant in stored
        missing += [] if complete and holds(f"{one.name}/config.json") else [one.name]
    for one in source.layout.tokenizers:
        missing += [] if holds(*(f"{one.name}/{file}" for file in VOCABULARIES)) else [one.name]
    return missing if holds(SCHEDULER) else [*missing, "scheduler"]


def find_source(name: str, revision: str | None, variant: str | None) -> Source:
    """Return the `Source` of a hub model (``owner/name`` or ``owner/name@revision``); fetches no weights."""
    from huggingface_hub import hf_hub_download, try_to_load_from_cache

    identifier, _, at = name.partition("@")
    if at and revision and at != revision:
        raise UserError(f"revision: expected {at}, as `model` says, got {revision}: name one of them")
    revision = revision or at or None
    with _explain_hub_errors(name, revision, variant):
        if not isinstance(try_to_load_from_cache(identifier, INDEX, revision=revision), str):
            _require_network()
        folder = Path(hf_hub_download(identifier, INDEX, revision=revision)).parent
    source = Source(name, "hub", folder, folder, folder.name, variant)
    fetch(source, revision, weights=False)
    return source


def fetch(source: Source, revision: str | None = None, *, weights: bool = True) -> None:
    """Download the files of a hub model that the cache lacks: all, or without `weights` configurations, tokenizers."""
    from huggingface_hub import snapshot_download

    if not missing_components(source, weights):  # refuses an unsupported pipeline, too
        return
    identifier = source.name.partition("@")[0]
    with _explain_hub_errors(source.name, revision, source.variant), quiet():
        _require_network()
        if weights:
            unused = {name: None for name in IMAGE_READERS if name in source.index}
            unused |= {source.layout.denoiser.name: None} if source.added.gguf else {}
            download_pipeline(identifier, revision=source.revision, variant=source.variant, **unused)
        else:
            patterns = ["*.json", "*.txt", "tokenizer*/*"]
            snapshot_download(identifier, revision=source.revision, allow_patterns=patterns)
    if missing := missing_components(source, weights):
        why = f"not in the cache ({', '.join(missing)}), and the hub gave none"
        raise _missing_model_error(source.name, revision, source.variant, why)


def find_file(place: str, name: str, file: str) -> Path:
    """Return the path of one file of the hub (``owner/name`` or ``owner/name@revision``), fetched if need be.

    A UserError names `place`, the key of the configuration.
    """
    from huggingface_hub import hf_hub_download, try_to_load_from_cache

    identifier, _, revision = name.partition("@")
    cached = try_to_load_from_cache(identifier, file, revision=revision or None)
    if isinstance(cached, str):
        return Path(cached)
    try:
        _require_network()
        with quiet():
            return Path(hf_hub_download(identifier, file, revision=revision or None))
    except Exception as error:  # of many libraries; all mean that the hub gave no file
        at = f" --revision {revision}" if revision else ""
        raise UserError(
            f"{place}: expected {file} of {name}, which is not in the cache, and the hub gave none"
            f" ({first_line(error, 60)}): check both names, give a path, or run: hf download {identifier}{at} {file}"
        ) from error


def _require_network() -> None:
    """Raise ``OfflineModeIsEnabled`` if the hub takes no connection in 2 seconds; its client would retry for 30.

    Behind a proxy, or where the client is set offline, nothing is tried.
    """
    from huggingface_hub import constants, errors

    if constants.HF_HUB_OFFLINE or getproxies():
        return
    where = urlsplit(constants.ENDPOINT)
    address = where.hostname, where.port or (80 if where.scheme == "http" else 443)
    try:
        socket.create_connection(address, _PATIENCE).close()
    except OSError as error:
        raise errors.OfflineModeIsEnabled(f"no connection to {constants.ENDPOINT}") from error


@contextlib.contextmanager
def _explain_hub_errors(name: str, revision: str | None, variant: str | None) -> Iterator[None]:
    """Context manager: turn any error of the hub's client into a one-line `UserError` with its remedy."""
    from huggingface_hub import errors

    identifier = name.partition("@")[0]
    try:
        yield
    except (errors.LocalEntryNotFoundError, errors.OfflineModeIsEnabled) as error:
        raise _missing_model_error(name, revision, variant, _UNREACHED) from error
    except Exception as error:  # the hub raises errors of many libraries; all mean that it gave no model
        if isinstance(error, errors.EntryNotFoundError):
            line = f"expected a diffusers pipeline, found no {INDEX} on the hub: {SUPPORTED}"
        elif isinstance(error, errors.RevisionNotFoundError):
            line = f"the hub has no revision {revision} of it: name a branch, a tag or a commit"
        elif isinstance(error, errors.GatedRepoError):
            line = "the hub gives it to those who have accepted its terms: accept them on"
            line += f" huggingface.co/{identifier}, then run: hf auth login"
        elif isinstance(error, errors.RepositoryNotFoundError):
            remedy = _withdrawal_note(identifier) or "check the spelling, or run: hf auth login"
            line = f"no folder of that name, and none on the hub{_spelling_hint(identifier)}: {remedy}"
        else:
            why = f"not in the cache, and the hub gave none ({first_line(error, 60)})"
            raise _missing_model_error(name, revision, variant, why) from error
        raise UserError(f"model {name}: {line}") from error


def _missing_model_error(name: str, revision: str | None, variant: str | None, why: str) -> UserError:
    """Return the `UserError` for a hub model that is not on this machine: why, its size and the command to fetch it."""
    identifier = name.partition("@")[0]
    size, withdrawn = size_in_gigabytes(identifier, variant), _withdrawal_note(identifier)
    large = f"; {size:.1f} GB" if size else ""
    repository = known_models().get(identifier, {}).get("copy", identifier)
    return UserError(
        f"model {name}: {why}{large}{f' ({withdrawn})' if withdrawn else ''}{_spelling_hint(identifier)}; check the"
        f" spelling, give a local folder, or run: {download_command(repository, revision, variant)}"
    )


def _spelling_hint(identifier: str) -> str:
    """Return the end of an error on a hub id that is not known, with the nearest known ids; empty for a known id."""
    if identifier in known_models():
        return ""
    near = difflib.get_close_matches(identifier, known_models(), 2, 0.75)
    return f"; no known id: did you mean {' or '.join(near)}?" if near else "; no known id, it may be wrong"


def _withdrawal_note(identifier: str) -> str:
    """Return a note on when a hub model was withdrawn, and its unofficial copy; empty for other models."""
    entry = known_models().get(identifier, {})
    copy = entry.get("copy")
    return f"withdrawn in {entry['withdrawn']}; an unofficial copy is {copy}" if copy else ""


# What `triptych models` lists: a name in ``model:``, how far it was tested, and what it is


def bundled_rows() -> list[Row]:
    """Return rows of text (name, "trained; 93%" of prompted nouns in its images, description) of the bundled models."""
    rows = []
    for name, model in REGISTRY.items():
        quality = parse_json((bundled_folder(name) / "quality.json").read_bytes())
        rows.append((name, f"trained; {quality['nouns_mean']:.0%}", model.about))
    return rows


def pipeline_rows() -> list[Row]:
    """Return a (pipeline class, how it was tested, classes of its networks) row for each supported pipeline."""
    sizes = defaultdict(list)
    for index in sorted(single_file.DESCRIPTIONS.glob(f"*/{INDEX}")):
        sizes[parse_json(index.read_bytes())["_class_name"]].append(index.parent.name)
    rows = []
    for pipeline, (architecture, layout) in generating_pipelines().items():
        tested = f"random weights in the layouts of {', '.join(sizes[pipeline])}"
        if architecture.transformer or not sizes[pipeline]:
            tested = "tiny random weights in the published folder layout"
        parts = dict.fromkeys(one.classes[0] for one in layout.networks)
        rows.append((pipeline, tested, ", ".join(parts)))
    return rows


def published_rows() -> list[Row]:
    """Return a (hub id, whether a run was tried, size and whether in the cache) row for each known hub model."""
    rows = []
    for identifier, entry in known_models().items():
        about = [f"{size_in_gigabytes(identifier):.1f} GB"]
        if "withdrawn" in entry:
            about.append(f"withdrawn in {entry['withdrawn']}, copy: {entry['copy']}")
        about.append("in the cache here" if is_cached(identifier) else "not in the cache here")
        tried = f"made a run with triptych {entry['tried']}" if "tried" in entry else "never tried"
        rows.append((identifier, tried, "; ".join(about)))
    return rows
