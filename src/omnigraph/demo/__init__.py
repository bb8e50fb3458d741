"""The guided tour: a data set that is made up, a story told by real commands, and what each of them cost."""
