"""What happened and why: views for SQL, the state of the store in numbers, and what is wrong with it."""
