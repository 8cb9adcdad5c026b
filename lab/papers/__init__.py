"""The numbers that three papers print, recomputed from their own tables: a module a paper.

`compare` says when a printed and a recomputed number agree, `tables` reads the reference tables, `gep`, `dalleval`
and `wu` recompute, `page` writes the page. The command is `python -m lab.papers.reproduce`.
"""
