"""The function libraries beyond the standard one: cel-go's extensions and Kubernetes' own."""
