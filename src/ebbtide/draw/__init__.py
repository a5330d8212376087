"""Drawing: a chart as data, in the terminal, and as SVG. Nothing here knows what is drawn."""
