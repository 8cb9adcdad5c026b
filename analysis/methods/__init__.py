"""Methods that a run can apply, one folder each; `analysis.methods.registry` lists them."""
