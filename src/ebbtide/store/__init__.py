"""Tables, transactions, and the two databases with where they differ. Knows nothing of what the rows mean."""
