"""Audits of labelled pictures: ``triptych audit PICTURES --labels labels.csv``.

Writes ``audit.html`` and, as CSV and Parquet, the tables of `analysis.methods.audit.columns.TABLES`.
"""

from __future__ import annotations

import argparse

from analysis.methods.audit.labelled_audit import audit, require_new
from analysis.methods.audit.spellings import merges_of
from probes import command_line


def work(arguments: argparse.Namespace) -> None:
    """Do what the command line asks."""
    options = vars(arguments)
    out, overwrite, thumbnails = (options.pop(name) for name in ("out", "overwrite", "thumbnails"))
    options.pop("stages")
    command_line.writable(out, folder=True)
    require_new(out, overwrite)  # before the work, too
    found = audit(**options | {"merge": merges_of(options["merge"])})
    page = found.write(out, thumbnails=thumbnails, overwrite=overwrite)
    print(repr(found))
    print(f"page and tables: {page}")
