"""The reading half of openCypher 9 and of Neo4j 5: lexer, parser and syntax tree."""
