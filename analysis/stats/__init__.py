"""How sure is a number? Arrays in, numbers out; knows no run and no site."""
