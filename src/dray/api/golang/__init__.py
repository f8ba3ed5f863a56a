"""How Go prints values, where clients can see it: internal structs inside error messages, and the verbs of package fmt."""
