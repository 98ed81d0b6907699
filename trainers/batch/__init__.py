"""From episodes and advantages to what a step learns from: returns, rows, loss scale, step."""
