"""How fast it is, and how fast it could be: every measure beside the floor of its database, in stores of its own."""
