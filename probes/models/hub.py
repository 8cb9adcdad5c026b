"""Models of the Hugging Face hub: from its cache or fetched, pinned to a commit; and what to run where it gives none.

A revision (a branch, a tag, a commit) is resolved once, when the description is asked for; everything else is read at
the commit it stands for, which ``run.json`` keeps.
"""

from __future__ import annotations

import contextlib
import difflib
import socket
import threading
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

import yaml

from probes.errors import UserError, first_line
from probes.models import description, published, weight_files
from probes.models.description import IMAGE_READERS, INDEX, SUPPORTED, Source
from probes.models.pretrained import download_pipeline, quiet

_PATIENCE = 2.0  # seconds; a hub that is there takes a connection in a fraction of one
_UNREACHED = "not in the cache, and the hub can't be reached"


@cache
def known() -> Mapping[str, Mapping[str, Any]]:
    """Return what ``known_models.yaml`` says of models of the hub, by their ids."""
    return yaml.safe_load((files(__package__) / "known_models.yaml").read_text(encoding="utf-8"))


def gigabytes(identifier: str, variant: str | None = None) -> float | None:
    """Size of what is read of a known model, in 10^9 bytes; None for others."""
    parameters = known().get(identifier, {}).get("parameters")
    if not parameters:
        return published.gigabytes(identifier)
    return parameters * (2 if variant == "fp16" else 4) / 1e9


def command(identifier: str, revision: str | None = None, variant: str | None = None) -> str:
    """The command that puts into the hub's cache what is read of a pipeline, and no more."""
    weights = [f"*/*model.{variant}*.safetensors"] if variant else ["*/*model.safetensors"]
    if identifier in published.published():  # in several files each, with vocabularies of other kinds
        weights += ["*/*model-*.safetensors", "tokenizer*/*"]
    at = f" --revision {revision}" if revision else ""
    included = " ".join(f'--include "{pattern}"' for pattern in ("*.json", "*.txt", *weights))
    return f"hf download {identifier}{at} {included}"


def cached(identifier: str) -> bool:
    """Return whether the hub's cache on this machine holds the whole of a model; asks no network."""
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache(identifier, INDEX)
    if not isinstance(found, str):
        return False
    folder = Path(found).parent
    source = Source(identifier, "hub", folder, folder)
    try:
        described, (_, layout) = description.read_index(source), description.read_kind(source)
    except UserError:  # damaged, or of another architecture by now
        return False
    return not weight_files.missing_files(folder, described, layout, None, True)


def fetch(name: str, revision: str | None, variant: str | None, weights: bool) -> Source:
    """A model of the hub (``owner/name`` or ``owner/name@revision``): from the cache where it is whole, else fetched.

    Without `weights` it is enough to plan. `variant`: the weights called so (``fp16``); None: full precision if any.
    """
    from huggingface_hub import hf_hub_download, snapshot_download, try_to_load_from_cache

    identifier, _, at = name.partition("@")
    if at and revision and at != revision:
        raise UserError(f"revision: expected {at}, as `model` says, got {revision}: name one of them")
    revision = revision or at or None
    with _answering(name, identifier, revision, variant):
        if not isinstance(try_to_load_from_cache(identifier, INDEX, revision=revision), str):
            _require_network()
        index = Path(hf_hub_download(identifier, INDEX, revision=revision))
    folder, commit = index.parent, index.parent.name
    source = Source(name, "hub", folder, folder, commit, variant)
    described = description.read_index(source)  # an unsupported pipeline is refused before it is fetched
    _, layout = description.read_kind(source)
    if not weight_files.missing_files(folder, described, layout, variant, weights):
        return source
    with _answering(name, identifier, revision, variant), quiet():
        _require_network()
        if weights:
            options = {unused: None for unused in IMAGE_READERS if unused in described}
            download_pipeline(identifier, revision=commit, variant=variant, **options)
        else:
            snapshot_download(identifier, revision=commit, allow_patterns=["*.json", "*.txt", "tokenizer*/*"])
    if missing := weight_files.missing_files(folder, described, layout, variant, weights):
        why = f"not in the cache ({', '.join(missing)}), and the hub gave none"
        raise _absent(name, identifier, revision, variant, why)
    return source


def _require_network() -> None:
    """Refuse at once a hub that takes no connection within `_PATIENCE` seconds: its client would try for half a minute.

    Behind a proxy the client's own attempts decide.
    """
    from huggingface_hub import constants, errors

    if constants.HF_HUB_OFFLINE or getproxies():
        return
    where = urlsplit(constants.ENDPOINT)
    port = where.port or (80 if where.scheme == "http" else 443)
    reached = threading.Event()

    def connect() -> None:
        with contextlib.suppress(OSError), socket.create_connection((where.hostname, port), _PATIENCE):
            reached.set()

    # in a thread, since a name can take longer to be looked up than any limit on the connection
    attempt = threading.Thread(target=connect, daemon=True)
    attempt.start()
    attempt.join(_PATIENCE)
    if not reached.is_set():
        raise errors.OfflineModeIsEnabled(f"no connection to {constants.ENDPOINT}")


@contextlib.contextmanager
def _answering(name: str, identifier: str, revision: str | None, variant: str | None) -> Iterator[None]:
    from huggingface_hub import errors

    try:
        yield
    except errors.LocalEntryNotFoundError as error:  # which is an EntryNotFoundError, too
        raise _absent(name, identifier, revision, variant, _UNREACHED) from error
    except errors.EntryNotFoundError as error:
        raise UserError(
            f"model {name}: expected a diffusers pipeline, found no {INDEX} on the hub: {SUPPORTED}"
        ) from error
    except errors.RevisionNotFoundError as error:
        raise UserError(
            f"model {name}: the hub has no revision {revision} of it: name a branch, a tag or a commit"
        ) from error
    except errors.GatedRepoError as error:
        raise UserError(
            f"model {name}: the hub gives it to those who have accepted its terms: accept them on"
            f" huggingface.co/{identifier}, then run: hf auth login"
        ) from error
    except errors.RepositoryNotFoundError as error:
        remedy = _withdrawn(identifier) or "check the spelling, or run: hf auth login"
        raise UserError(
            f"model {name}: no folder of that name, and none on the hub{_near(identifier)}: {remedy}"
        ) from error
    except errors.OfflineModeIsEnabled as error:
        raise _absent(name, identifier, revision, variant, _UNREACHED) from error
    except Exception as error:  # the hub raises errors of many libraries; all mean that it gave no model
        why = f"not in the cache, and the hub gave none ({first_line(error, 60)})"
        raise _absent(name, identifier, revision, variant, why) from error


def _absent(name: str, identifier: str, revision: str | None, variant: str | None, why: str) -> UserError:
    """The line that says what is not on this machine, how large it is and which command fetches it."""
    size = gigabytes(identifier, variant)
    large = f"; {size:.1f} GB" if size else ""
    withdrawn = f" ({_withdrawn(identifier)})" if _withdrawn(identifier) else ""
    there = known().get(identifier, {}).get("copy", identifier)
    return UserError(
        f"model {name}: {why}{large}{withdrawn}{_near(identifier)}; check the spelling, give a local folder,"
        f" or run: {command(there, revision, variant)}"
    )


def _near(identifier: str) -> str:
    """Return that an id is of no known model, with the nearest that are; empty for a known one."""
    names = [*known(), *published.published()]
    if identifier in names:
        return ""
    near = difflib.get_close_matches(identifier, names, 2, 0.75)
    return f"; no known id: did you mean {' or '.join(near)}?" if near else "; no known id, it may be wrong"


def _withdrawn(identifier: str) -> str:
    """Since when the hub has a model no more, and which copy there is; empty for others."""
    entry = known().get(identifier, {})
    return (
        f"withdrawn in {entry['withdrawn']}; an unofficial copy is {entry['copy']}"
        if entry.get("copy")
        else ""
    )
