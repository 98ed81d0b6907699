"""Teams and episodes on their way to the Hub: what is sent, with which card."""
