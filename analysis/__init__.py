"""From stored observations to numbers, tables, figures and a report. Needs no torch."""
