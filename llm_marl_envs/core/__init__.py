"""What an environment is made of: its classes, tasks, outcome, records, seeds, texts, rendering."""
