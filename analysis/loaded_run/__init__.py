"""A run in Python and in a notebook: `LoadedRun`, from its tables, its images and its figures, a file each."""

from analysis.loaded_run.run import LoadedRun, load_run

__all__ = ["LoadedRun", "load_run"]
