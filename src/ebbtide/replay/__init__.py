"""What a corrected policy would have done: facts recomputed, compared with what is, and written as corrections."""
