"""The theory of uncertainty, all of it: projection, sample sizes, intervals, typical times."""
