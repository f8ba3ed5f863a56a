"""The API groups, each a module or a package under the name that upstream gives it in pkg/apis."""
