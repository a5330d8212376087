"""The words everything else is said in: vocabulary, instants, identity, entries, state and errors."""
