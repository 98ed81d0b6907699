"""One update's experience: tasks -> who sits where -> episodes -> returns -> advantages."""
