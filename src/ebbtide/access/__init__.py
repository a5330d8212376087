"""Who may do what: roles, and the tokens that bear them."""
