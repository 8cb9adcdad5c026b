"""Human checks in worlds whose rates are known: are they still right where sheets are drawn after labels?"""
