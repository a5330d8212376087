"""The projection: entries become state. A pure fold, the writer that folds as it appends, and the fold in SQL."""
