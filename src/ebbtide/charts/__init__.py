"""Charts of what was worked out, for whoever draws them: in the terminal, as SVG, in a page."""
