"""What is made of the matches of a pattern: groups, order, and the columns that come out."""
