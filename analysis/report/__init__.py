"""The stage report: from tables to a page, figures and LaTeX."""
