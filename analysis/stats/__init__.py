"""How sure: arrays in, numbers out. Knows no run and no site."""
