"""Audits of labelled pictures: ``triptych audit PICTURES --labels labels.csv``.

Writes ``audit.html`` and, as CSV and Parquet, the tables of `analysis.methods.audit.columns.TABLES`.
"""

from __future__ import annotations

import argparse

from analysis.methods.audit.labelled_audit import PAGE, audit
from analysis.methods.audit.tables import merges_of
from probes import command_line
from probes.errors import UserError


def work(arguments: argparse.Namespace) -> None:
    """Do what the command line asks."""
    options = vars(arguments)
    out, overwrite, thumbnails = (options.pop(name) for name in ("out", "overwrite", "thumbnails"))
    options.pop("stages")
    command_line.writable(out, folder=True)
    if (out / PAGE).exists() and not overwrite:  # before the work, too
        raise UserError(f"{out}: expected no audit yet, found one: name another --out, or --overwrite")
    found = audit(**options | {"merge": merges_of(options["merge"])})
    page = found.write(out, thumbnails=thumbnails, overwrite=overwrite)
    print(repr(found))
    print(f"page and tables: {page}")
