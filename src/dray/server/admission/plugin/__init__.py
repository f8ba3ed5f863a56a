"""The built-in admission plugins, one module for each plugin or each family of plugins."""
