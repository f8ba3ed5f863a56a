"""From text to syntax tree: lexer, parser, literals and macros."""
