"""The rules of cooperative writing: documents, what a text states, rewards, conventions, tasks."""
