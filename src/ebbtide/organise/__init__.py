"""What time asks of memory: the schedule, its slots, and the passes that decay, warn and move what is due."""
