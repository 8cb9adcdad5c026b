"""Statistics: arrays in, numbers out; knows no run and no site."""
