"""Which kinds there are: a Kind with its versions, strategy, columns and scale, and the Scheme in which they are found."""
