"""The guided tour: a synthetic data set, a script of real commands, and the cost of each."""
