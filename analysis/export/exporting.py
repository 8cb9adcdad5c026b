"""Export of a run in a format of `analysis.export.registry`, and its upload to the Hugging Face Hub."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from analysis.export.images import left_out_line
from analysis.export.registry import FORMATS, HUB
from analysis.studies.opening import opened
from probes.errors import UserError, first_line
from probes.runs.parts import disk_error, temporary


@dataclass(frozen=True)
class Export:
    """What was written.

    Attributes
    ----------
    place : str
        The folder, or the address of the dataset on the Hub.
    opens : str
        Python that opens it.
    note : str
        What was left out, and why; empty where nothing was.
    """

    place: str
    opens: str
    note: str = ""


def export_run(
    run_path: str | Path,
    to: str,
    out: str | Path | None = None,
    *,
    repo: str = "",
    public: bool = False,
    token: str | None = None,
) -> Export:
    """Write a run in a format of other programs, or upload it to the Hugging Face Hub.

    Parameters
    ----------
    run_path : str or Path
        The directory of a run. Of an unfinished one what is there is exported.
    to : str
        A name of `analysis.export.registry.FORMATS`.
    out : str or Path, optional
        The folder to write, new or empty; by default ``<run>-<to>`` in the working directory, and with `repo` none
        that stays.
    repo : str
        Of the format ``hub`` alone: the dataset to upload to, ``user/name``. Without it nothing leaves this machine.
    public : bool
        Whether a repository that is made for it can be seen by everybody; one that is there stays as it is.
    token : str, optional
        Of the Hub; by default the one that `huggingface_hub` finds.

    Returns
    -------
    Export

    Raises
    ------
    UserError
        There is no such format or run, the folder is not empty, or the Hub refuses.
    """
    row = FORMATS.get(to)
    if row is None:
        raise UserError(f"--to: expected one of {', '.join(FORMATS)}, got {to!r}")
    if repo and to != HUB:
        raise UserError(f"--repo: expected with --to {HUB} alone, got --to {to}: leave it out")
    if public and not repo:
        raise UserError("--public: expected with --repo alone: name the dataset, or leave --public out")
    run = opened(run_path)
    write = import_module(row.module).write
    note = left_out_line(run) if row.images else ""
    with _folder(Path(out) if out else None if repo else Path(f"{run.path.name}-{to}")) as (folder, final):
        write(run, folder)
        if repo:
            address = _upload(folder, repo, public=public, token=token)
            return Export(address, f"datasets.load_dataset('{repo}')", note)
    return Export(str(final), row.opens.format(out=final.as_posix()), note)


def push_to_hub(run_path: str | Path, repo: str, *, public: bool = False, token: str | None = None) -> str:
    """Upload a run to the Hugging Face Hub as a dataset; return its address. See `export_run`."""
    return export_run(run_path, HUB, repo=repo, public=public, token=token).place


@contextmanager
def _folder(out: Path | None) -> Iterator[tuple[Path, Path]]:
    """A folder to write, and the one that it becomes: whole or not at all; one that goes away where none is named."""
    if out is None:
        with tempfile.TemporaryDirectory() as holder:
            yield Path(holder) / "export", Path(holder) / "export"
        return
    try:
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise UserError(
                f"{out}: expected a new or empty folder, got one that is not: choose another --out"
            )
        out.parent.mkdir(parents=True, exist_ok=True)
        beside = temporary(out)
        try:
            yield beside, out
            if out.exists():
                out.rmdir()
            os.replace(beside, out)
        finally:
            shutil.rmtree(beside, ignore_errors=True)
    except OSError as error:
        raise disk_error(Path(error.filename or out), error) from None


def _upload(folder: Path, repo: str, *, public: bool, token: str | None) -> str:
    from huggingface_hub import HfApi
    from huggingface_hub.errors import (
        HfHubHTTPError,
        HFValidationError,
        HTTPError,
        LocalTokenNotFoundError,
        OfflineModeIsEnabled,
    )

    api = HfApi(token=token, library_name="triptych")
    try:
        made = api.create_repo(repo, repo_type="dataset", private=not public, exist_ok=True)
        api.upload_folder(
            repo_id=made.repo_id,
            repo_type="dataset",
            folder_path=folder,
            commit_message="Upload a run of Triptych",
        )
    except HFValidationError as error:
        raise UserError(f"--repo: expected user/name, got {repo!r} ({first_line(error)})") from None
    except LocalTokenNotFoundError:
        raise UserError(
            f"{repo}: expected a token of the Hugging Face Hub, found none: run `hf auth login`"
        ) from None
    except OfflineModeIsEnabled:
        raise UserError(f"{repo}: cannot be uploaded, HF_HUB_OFFLINE is set: unset it") from None
    except HfHubHTTPError as error:
        raise UserError(
            f"{repo}: the Hugging Face Hub refused ({first_line(error)}): check the name, and the token with"
            " `hf auth login`"
        ) from None
    except (HTTPError, OSError) as error:  # no route, no such host
        raise UserError(f"{repo}: the Hugging Face Hub was not reached ({first_line(error)})") from None
    return str(made)
