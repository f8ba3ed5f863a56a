"""What parser, checker and interpreter share, by cel-go's names: syntax tree, declarations, types, values and operators."""
