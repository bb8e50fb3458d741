"""What a mutation is about to do, and the rules that it must keep."""
