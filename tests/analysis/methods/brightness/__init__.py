"""A method as small as one can be, for the test that a method is one folder and one row of the registry."""
